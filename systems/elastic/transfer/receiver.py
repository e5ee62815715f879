"""Receiver: the side of a transfer that gets the state. It handles the donor's log in order.

A piece overwrites its elements. The job's own update applies gradients to all elements, also to
those whose piece has not come. ``donor`` explains why the result is the donor's state, bit by bit.
"""

from __future__ import annotations

import hmac
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from systems.elastic.transfer.channel import (
    MAX_HEADER_BYTES,
    Cancelled,
    Channel,
    Header,
    PeerLost,
    TransferError,
    encode,
)
from systems.elastic.transfer.donor import TIMEOUT_S
from systems.elastic.transfer.links import PROBE_BYTES, VERSION
from systems.elastic.transfer.pieces import bucket_names, gradient_views
from systems.elastic.transfer.training_state import StateMismatch, TrainingState
from systems.runtime.reduction.bucket_layouts import LayoutError, check_layout
from systems.runtime.reduction.ordered import BucketLayout
from systems.runtime.tensors.memory import as_bytes, host_identity, read_memory

GREETING_TIMEOUT_S = 2.0

Apply: TypeAlias = Callable[[int, float, int, Sequence[torch.Tensor]], None]
"""The job's update, called with four arguments.

They are the number of steps executed before it, the batch that sets its learning rate, the samples
consumed before it, and the flat gradients.
"""


@dataclass(frozen=True, slots=True)
class Received:
    """Content of the log's last entry."""

    step: int
    """Number of steps executed."""
    values: dict[str, Any]


class Receiver:
    """Listener for one donor, whose state it takes."""

    def __init__(
        self,
        token: str,
        state: TrainingState,
        layout: Sequence[BucketLayout] = (),
        apply: Apply | None = None,
        *,
        bind: str = "127.0.0.1",
        buckets: Sequence[torch.Tensor] | None = None,
        timeout_s: float = TIMEOUT_S,
        share_memory: bool = True,
    ) -> None:
        """Begin to listen on a free port of ``bind``.

        Args:
            token: token that the donor must show.
            state: state that is filled, in place.
            layout: parameters in each of the donor's gradient buckets.
            apply: the job's update, run while every parameter's ``grad`` is a view into the
                buckets; without it no gradients are expected.
            bind: address of this machine.
            buckets: memory for the gradients, by bucket; made here if not given.
            timeout_s: a donor that is silent for this time is lost.
            share_memory: read the donor's memory where that is possible.
        """
        self._token = token
        self._state = state
        self._layout = tuple(layout)
        self._apply = apply
        self._buckets = buckets
        self._timeout_s = timeout_s
        self._share_memory = share_memory
        self._channel: Channel | None = None
        self._donor_pid = 0
        self._cancelled = threading.Event()
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._listener = socket.create_server((bind, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        self.pulls = False
        """True if the donor's memory is read here, instead of sent."""

    def run(
        self,
        on_caught_up: Callable[[], None] = lambda: None,
        *,
        wait_s: float = 60.0,
    ) -> Received:
        """Take everything up to the donor's ``finish``.

        Args:
            on_caught_up: called when all pieces are here and at most one step is missing.
            wait_s: how long to wait for the donor to connect.

        Raises:
            PeerLost: the donor did not come, has gone, or is silent.
            StateMismatch: its state does not fit this one.
            LayoutError: its gradients lie in other buckets.
            TransferError: what it sent makes no sense.
            Cancelled: ``cancel`` was called.
        """
        try:
            with self._accept(wait_s).socket:
                return self._take_all(on_caught_up)
        except (TransferError, OSError) as error:
            if self._cancelled.is_set():
                raise Cancelled("the transfer was cancelled") from None
            if isinstance(error, OSError):
                raise PeerLost(str(error)) from None
            raise
        finally:
            self.close()
            for parameter in self._state.parameters:
                parameter.grad = None

    def cancel(self) -> None:
        """Give up from any thread: ``run`` raises ``Cancelled``."""
        # First: ``_accept`` looks at it again once ``_channel`` is set, so that no channel is
        # missed.
        self._cancelled.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._channel is not None:
            self._channel.abort()

    def close(self) -> None:
        """Free the port. Safe to call twice."""
        self._listener.close()
        if self._channel is not None:
            self._channel.close()

    def _accept(self, wait_s: float) -> Channel:
        """Return the first connection that shows the token; all others are closed.

        Raises:
            PeerLost: no donor came in time, or ``cancel`` was called.
        """
        until = time.monotonic() + wait_s
        while (left := until - time.monotonic()) > 0 and not self._cancelled.is_set():
            self._listener.settimeout(left)
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                break
            channel = Channel(sock, GREETING_TIMEOUT_S)
            self._channel = channel
            if self._cancelled.is_set():  # cancelled before ``cancel`` could see the channel
                break
            # Bounds the whole greeting: a client without the token must not keep the donor waiting.
            channel.until = time.monotonic() + GREETING_TIMEOUT_S
            try:
                self._greet(channel)
            except (TransferError, OSError, KeyError, TypeError, ValueError):
                channel.close()
                continue
            channel.until = None
            sock.settimeout(self._timeout_s)
            channel.limit = MAX_HEADER_BYTES
            return channel
        raise PeerLost(f"no donor has come within recovery_timeout_s ({wait_s:g} s)")

    def _greet(self, channel: Channel) -> None:
        greeting = channel.receive()
        shown = str(greeting.get("token", ""))
        if not hmac.compare_digest(shown.encode(), self._token.encode()):
            raise TransferError("the token is wrong")
        if greeting["kind"] != "greeting" or greeting.get("version") != VERSION:
            raise TransferError("another version of the protocol")
        host = host_identity() if self._share_memory else ""
        channel.send(encode({"kind": "hello", "host": host, "pid": os.getpid()}))
        offer = channel.receive()
        proof = ""
        if offer["kind"] == "probe":
            probe = torch.zeros(PROBE_BYTES, dtype=torch.uint8)
            with suppress(OSError, ValueError):  # the kernel may forbid it
                read_memory(int(offer["pid"]), offer["memory"], [probe])
                proof = bytes(probe.numpy()).hex()
            self._donor_pid = int(offer["pid"])
        self.pulls = bool(proof)
        channel.send(encode({"kind": "welcome", "proof": proof}))

    def _take_all(self, on_caught_up: Callable[[], None]) -> Received:
        assert self._channel is not None
        while True:
            header = self._channel.receive()
            kind = header["kind"]
            try:
                if kind == "form":
                    self._compare(header)
                elif kind == "start":
                    self._state.load_values(header["values"])
                elif kind == "piece":
                    self._take_piece(header)
                elif kind == "gradients":
                    self._take_gradients(header)
                elif kind == "copied":
                    self._channel.send(encode({"kind": "copied"}))
                elif kind == "caught_up":
                    on_caught_up()
                elif kind == "finish":
                    return self._take_last(header)
                elif kind != "alive":
                    raise TransferError(f"the donor sent {kind!r}")
            except LayoutError:
                raise
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise TransferError(f"a {kind!r} header that makes no sense: {error}") from None

    def _compare(self, form: Header) -> None:
        """Tell the donor whether its state and gradient buckets are like those here.

        The donor sends nothing before it knows, so it reads the reason even as this side hangs up.

        Raises:
            StateMismatch: the states differ.
            LayoutError: the buckets differ.
        """
        assert self._channel is not None
        try:
            # Before any byte of the state: a refused state has changed nothing here.
            self._state.check(form["description"])
            if "layout" in form:
                check_layout(form["layout"], bucket_names(self._state, self._layout))
        except (StateMismatch, LayoutError) as error:
            self._channel.send(encode({"kind": "refused", "reason": str(error)}))
            raise
        self._channel.send(encode({"kind": "fits"}))

    def _take_piece(self, header: Header) -> None:
        views = [view for entry in header["parts"] for view in self._state.write(entry)]
        self._fill(header, views)

    def _take_gradients(self, header: Header) -> None:
        if self._apply is None:
            raise TransferError("gradients came, but this side has no update to apply them with")
        if self._buckets is None:
            device = self._state.parameters[0].device  # where gradients have to be
            self._buckets = [
                torch.zeros(bucket.numel, dtype=bucket.dtype, device=device)
                for bucket in self._layout
            ]
        numbers = [int(number) for number in header["buckets"]]
        if min(numbers, default=0) < 0:
            raise IndexError(f"bucket {min(numbers)}")
        self._fill(header, [self._buckets[number] for number in numbers])
        views = gradient_views(self._state, self._layout, self._buckets)
        for index, view in views.items():
            self._state.parameters[index].grad = view
        if "groups" in header:
            self._state.load_groups(header["groups"])
        self._apply(
            int(header["step"]), header["rate_batch"], int(header["samples"]), self._buckets
        )
        assert self._channel is not None
        # After the update: the donor counts this step as one that is no longer missing here.
        self._channel.send(encode({"kind": "applied", "step": header["step"]}))

    def _take_last(self, header: Header) -> Received:
        self._fill(header, self._state.buffer_memory)
        self._state.load_values(header["optimizer"])
        assert self._channel is not None
        # Last: once the donor hears this, its next update may change all that was read here.
        self._channel.send(encode({"kind": "done"}))
        return Received(int(header["step"]), dict(header["values"]))

    def _fill(self, header: Header, views: Sequence[torch.Tensor]) -> None:
        """Put a frame's payload into the views, from the socket or from the donor's memory."""
        assert self._channel is not None
        here = [
            view if view.device.type == "cpu" else torch.empty_like(view, device="cpu")
            for view in views
        ]
        memory = [as_bytes(view) for view in here]
        if self.pulls and "memory" in header:
            read_memory(self._donor_pid, header["memory"], memory)
            # Only once it is read: the donor may change the memory as soon as it hears this.
            self._channel.send(encode({"kind": "pulled"}))
        else:
            self._channel.receive_into(memory)
        for view, filled in zip(views, here, strict=True):
            if view is not filled:
                view.detach().copy_(filled)


__all__ = ["Received", "Receiver", "StateMismatch"]
