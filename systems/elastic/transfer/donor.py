"""Donor: the worker that sends its state in the background, while it trains.

A thread copies the live state piece by piece and sends it. The same ordered stream has the reduced
gradients of every step that is committed meanwhile. It is a log, which the joiner handles in order
(``receiver``).

*Why the joiner ends with the donor's state.* A piece holds a range of a parameter's elements and
all optimizer state on them; the first range also has the parameter's counters. A piece is of one
version, because no update comes between the beginning and the end of its copy. One lock orders
pieces and updates. So the gradients of an update come in the log after every piece copied before
the update, and before every piece copied after it.

An element-wise update computes an element and its state from exactly these, the parameter's
counters, the element's gradient and hyper-parameters. It computes counters and hyper-parameters
from themselves alone. So once a piece has been written, every replayed update takes its content to
the next version with the donor's own bits.

An update also changes elements whose piece has not come. Their values are garbage, but no correct
value depends on them, and their piece overwrites them. So when all pieces have come, every tensor
is at the version of the log's end.

Two simpler ways would be wrong. With parameter and momentum in pieces of different versions, the
garbage of one would enter the other. A piece that an update has torn is sent again. If every piece
had counters, this would break the counters of elements that are right already.

This does not hold for updates that look across elements (``is_elementwise``), or that change
anything else than the optimizer's parameters and state. Buffers change outside updates, so they
come last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from systems.elastic.transfer.channel import Cancelled, TransferError
from systems.elastic.transfer.frame import Frame
from systems.elastic.transfer.links import Link, Links
from systems.elastic.transfer.listing import ListedPiece, Listing
from systems.elastic.transfer.update_lock import UpdateLock
from systems.runtime.tensors.memory import as_bytes, split

TIMEOUT_S = 10.0
# Far below TIMEOUT_S, after which receivers take a silent donor for lost.
_KEEPALIVE_S = 1.0
_LIVE_TRIES = 3
"""Number of times that a piece is read in place before it is copied under the lock."""


@dataclass(frozen=True, slots=True)
class _Event:
    """Reduced gradients of one step."""

    step: int
    rate_batch: float
    samples: int
    numbers: tuple[int, ...]
    """Numbers of the buckets that are sent."""
    buckets: tuple[torch.Tensor, ...]
    versions: tuple[int, ...]
    groups: Sequence[Mapping[str, Any]] | None
    """Hyper-parameters of the update; None if the update sets them itself, by its step."""


@dataclass(frozen=True, slots=True)
class _Finish:
    step: int
    values: dict[str, Any]
    buffers: list[torch.Tensor]


class Donor:
    """Sender of the state of a job in training to joiners; one memory copy serves all of them.

    The training thread makes it between two steps, and from then on brackets every update::

        donor.wait_sent()                                # before a backward
        with donor.lock:                                 # after the reduction
            donor.reduced(step, rate_batch, samples, buckets)
            workload.update(...)

    At last it calls ``finish`` or ``cancel``. Whatever happens to the joiners, none of these calls
    raises for it or waits longer than ``timeout_s``.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        token: str,
        listing: Listing,
        *,
        timeout_s: float = TIMEOUT_S,
        keeps_gradients: bool = True,
        share_memory: bool = True,
    ) -> None:
        """Begin in the background.

        Args:
            addresses: where the joiners' receivers listen.
            token: token that the receivers expect.
            listing: listing of the live state.
            timeout_s: a joiner that does nothing for this time has failed.
            keeps_gradients: the update leaves the gradients as they are and needs only an element's
                own. False (for instance if it clips them): all gradients are sent, from a copy.
            share_memory: let joiners on this host read this process's memory.
        """
        self.lock = UpdateLock()
        self.caught_up = False
        """True once all pieces have arrived and at most one step was missing."""
        self.finished = False
        """True once every joiner that has not failed has the whole state of ``finish``."""
        self.failed: Exception | None = None
        """Error of the first joiner that failed, or of all; None: no failure."""
        self._state = listing.state
        self._listing = listing
        self._keeps_gradients = keeps_gradients
        self._links = Links(addresses, token, timeout_s, share_memory=share_memory)
        self._staging = torch.empty(0, dtype=torch.uint8)
        self._is_in_place = False
        """True if all receivers read this process's memory."""
        self._num_tries = 0
        self._touched = [not keeps_gradients] * len(listing.layout)
        self._pieces: deque[ListedPiece] = deque()
        self._events: deque[_Event] = deque()
        self._num_logged = 0
        self._is_logging = False
        self._last: _Finish | None = None
        self._is_last_read = False
        """True once the thread has read the last state's part of the training objects."""
        self._cancelled = False
        self._over = False
        self._sent = threading.Condition()
        # Last: the thread uses everything above.
        self._thread = threading.Thread(target=self._run, name="state-donor", daemon=True)
        self._thread.start()

    @property
    def failures(self) -> Mapping[tuple[str, int], Exception]:
        """Failures by address of the joiner; the other joiners go on."""
        return self._links.failures

    def reduced(
        self,
        step: int,
        rate_batch: float,
        samples: int,
        buckets: Sequence[torch.Tensor],
        groups: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Log the gradients of an update that follows at once, under the same ``lock``.

        Args:
            step: number of steps executed before that update.
            rate_batch: batch that sets the update's learning rate, ``Trainer.rate_batch``.
            samples: samples consumed by the steps before.
            buckets: the flat reduced gradients; their memory must not change until ``wait_sent``.
            groups: hyper-parameters of the update, where a script may have set them; None: the
                update sets them itself, by its step.

        Raises:
            RuntimeError: the lock is not held, so the log would have no order.
        """
        if not self.lock.is_updating:
            raise RuntimeError("call reduced() and the update together under the donor's lock")
        if not self._is_logging or self._over:
            return
        if self._last is not None:
            # After ``finish`` an update is right only once all that it changes was read.
            if self._pieces or not self._is_last_read:
                self._fail(TransferError("an update came after finish() and before its state"))
            return
        numbers = tuple(number for number, touched in enumerate(self._touched) if touched)
        chosen = tuple(buckets[number].detach() for number in numbers)
        if not self._keeps_gradients:
            chosen = tuple(bucket.clone() for bucket in chosen)
        # Torch counts changes in place: a gradient that changes while it is sent is noticed then.
        versions = tuple(bucket._version for bucket in chosen)
        self._events.append(_Event(step, rate_batch, samples, numbers, chosen, versions, groups))
        self._num_logged += 1
        self._links.wake()

    def wait_sent(self) -> None:
        """Wait until the joiners have the logged gradients, or the transfer has ended."""
        # Without the lock: only the calling thread adds to the log.
        if not self._events:
            return
        with self._sent:
            self._sent.wait_for(lambda: not self._events or self._over)

    def finish(self, step: int, values: Mapping[str, Any]) -> None:
        """End the log: after ``step`` steps this is the state, and ``values`` go with it.

        Call it between two steps; it returns at once. The joiners must have everything
        (``finished``) before the next update, which changes what the optimizer keeps. They have it
        if they take part in that step.

        Args:
            step: number of steps executed.
            values: other values that a joiner must know, in the form that JSON can hold.
        """
        # Copied now, since the next forward pass changes the buffers; to the host, from which
        # frames are sent.
        try:
            buffers = [memory.to("cpu", copy=True) for memory in self._state.buffer_memory]
        except TypeError as error:
            self._fail(error)
            return
        # After the copies: from here on the thread may send them.
        self._last = _Finish(step, dict(values), buffers)
        self._links.wake()

    def cancel(self) -> None:
        """Give up at once, at any time, from any thread. Safe to call twice."""
        # First: the thread that the abort wakes looks at it.
        self._cancelled = True
        self._links.abort()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread, and return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._links.connect(self._listing.form())
            self._begin()
            while self._links.open and not self._cancelled and not self.finished:
                self._advance()
            if self._cancelled:
                raise Cancelled("the transfer was cancelled")
        except Exception as error:  # whatever it is, training goes on
            self._fail(error)
        finally:
            self._note_failures()
            # Before the notification: a training thread in ``wait_sent`` goes on, whatever became
            # of the transfer.
            self._over = True
            with self._sent:
                self._events.clear()
                self._sent.notify_all()
            self._links.close()

    def _begin(self) -> None:
        """Send the log's first entry; from here on every update is logged."""
        pulls = all(link.pulls for link in self._links.open)
        self._is_in_place = pulls and self._state.is_on_host
        self._pieces.extend(self._listing.pieces(in_place=self._is_in_place))
        # Between two updates, so that the values and the begin of the log are of one version.
        while not self.lock.begin_copy(self.lock.stable_version()):
            pass
        try:
            values = self._state.values()
            self._is_logging = True
        finally:
            self.lock.end_copy()
        # Only now, without the lock: training must not wait for a slow receiver.
        self._send(Frame({"kind": "start", "values": values}))

    def _advance(self) -> None:
        """Send the next entry of the log, or listen if there is none."""
        # Logged gradients go first: they belong before any piece that is copied from now on.
        if self._events:
            self._send_event(self._events[0])
            # Removed only once it is sent: with an empty log ``wait_sent`` returns, and the next
            # backward pass overwrites the gradients.
            with self._sent:
                self._events.popleft()
                self._sent.notify_all()
            self._links.listen(0.0)
        elif self._pieces:
            if self._send_piece(self._pieces[0]):
                self._pieces.popleft()
                self._num_tries = 0
                if not self._pieces:
                    self._send(Frame({"kind": "copied"}))
        elif self._last is None:
            if not self._links.listen(_KEEPALIVE_S):
                self._send(Frame({"kind": "alive"}))
        elif not self._events:  # checked again: one may have come before the finish, none after
            self._send_last(self._last)
            self._links.wait(lambda link: not link.is_done)
            self.finished = self._links.num_done > 0
        self._note_failures()
        if not self.caught_up and self._links.open and all(map(self._is_near, self._links.open)):
            self.caught_up = True
            self._send(Frame({"kind": "caught_up"}))

    def _send_event(self, event: _Event) -> None:
        header = {
            "kind": "gradients",
            "step": event.step,
            "rate_batch": event.rate_batch,
            "samples": event.samples,
            "buckets": event.numbers,
        }
        if event.groups is not None:
            header["groups"] = event.groups
        self._send(Frame(header, [as_bytes(bucket.cpu()) for bucket in event.buckets]))
        if tuple(bucket._version for bucket in event.buckets) != event.versions:
            raise TransferError(
                "the update changes gradients in place while they are being sent;"
                " use keeps_gradients=False"
            )

    def _send_piece(self, piece: ListedPiece) -> bool:
        """Send a piece of one version. Return False if an update came between."""
        # Read before the look at the log: an update that comes in between makes the version differ.
        version = self.lock.stable_version()
        if self._events:
            return False  # logged gradients come before a piece of this version
        if self._is_in_place and self._num_tries < _LIVE_TRIES:
            self._num_tries += 1
            return self._let_read(piece, version)
        return self._send_copy(piece, version)

    def _let_read(self, piece: ListedPiece, version: int) -> bool:
        """Let receivers read the live state, without lock or copy; return False if it is torn.

        A piece counts only if no update began before all receivers said that they have it.
        Otherwise it is sent again.
        """
        frame = piece.frame()
        if self.lock.version != version:
            return False  # the state may have changed while it was listed
        self._send(frame)
        if not self.lock.begin_copy(version):
            return False
        try:
            # Under the lock: the very next update has to log the gradients of this piece.
            self._touch(piece)
        finally:
            self.lock.end_copy()
        return True

    def _send_copy(self, piece: ListedPiece, version: int) -> bool:
        """Send a copy that was made while no update could come.

        Return False if an update came before.
        """
        header, sources = piece.read()
        if self.lock.version != version:
            return False
        num_bytes = sum(view.numel() for view in sources)
        if num_bytes > self._staging.numel():  # more, if the optimizer has made state since
            self._staging = torch.empty(num_bytes, dtype=torch.uint8)
        payload = self._staging[:num_bytes]
        targets = split(payload, sources)
        if not self.lock.begin_copy(version):
            return False
        try:
            torch._foreach_copy_(targets, sources)
            self._touch(piece)
        finally:
            self.lock.end_copy()
        # Returns once the receivers have the payload, so that the next piece may overwrite it.
        self._send(Frame(header, [payload]))
        return True

    def _touch(self, piece: ListedPiece) -> None:
        """Send the gradients of this piece, too, from the next update on."""
        for number in piece.buckets:
            self._touched[number] = True

    def _send_last(self, last: _Finish) -> None:
        optimizer = self._state.values()
        # All that is sent now is a copy, so that an update may come.
        self._is_last_read = True
        header = {"kind": "finish", "step": last.step, "values": last.values}
        self._send(Frame({**header, "optimizer": optimizer}, last.buffers))

    def _send(self, frame: Frame) -> None:
        self._links.send(frame)
        self._note_failures()

    def _is_near(self, link: Link) -> bool:
        """Return whether the receiver has all pieces, and lacks at most one step."""
        return link.has_copied and self._num_logged - link.num_applied <= 1

    def _note_failures(self) -> None:
        for error in self._links.failures.values():
            self._fail(error)
            break

    def _fail(self, error: Exception) -> None:
        if self.failed is None:
            self.failed = error
