"""The donor's connections to its receivers: one stream of frames that goes to all of them.

A receiver on another host gets the payload through the socket. A receiver on the same host is told
the payload's place and reads it (``memory.read_memory``), which costs the donor nothing. It then
says so, and only then may the memory change.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import torch

from systems.elastic.transfer.channel import (
    MAX_HEADER_BYTES,
    Channel,
    Header,
    PeerLost,
    TransferError,
    encode,
)
from systems.elastic.transfer.frame import Frame
from systems.runtime.tensors.memory import ReadingPermission, host_identity, regions

VERSION = 2
PROBE_BYTES = 16


class Link:
    """Connection to one receiver."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.channel: Channel | None = None
        self.pulls = False
        """True if the receiver reads this process's memory itself."""
        self.fits = False
        """True once the receiver has said that the state has the same form as its own."""
        self.num_sent = 0
        """Number of frames with a payload that the receiver reads itself."""
        self.num_pulled = 0
        self.num_applied = 0
        """Number of gradient events that the receiver has applied."""
        self.has_copied = False
        """True once all pieces have arrived."""
        self.is_done = False

    def take(self, header: Header) -> None:
        """Note a message of the receiver.

        Raises:
            TransferError: the receiver refuses the state, or the message is unknown.
        """
        kind = header["kind"]
        if kind == "fits":
            self.fits = True
        elif kind == "refused":
            raise TransferError(str(header["reason"]))
        elif kind == "pulled":
            self.num_pulled += 1
        elif kind == "applied":
            self.num_applied += 1
        elif kind == "copied":
            self.has_copied = True
        elif kind == "done":
            self.is_done = True
        else:
            raise TransferError(f"a receiver sent {kind!r}")


def _expect(header: Header, kind: str) -> Header:
    if header["kind"] != kind:
        raise TransferError(f"the receiver sent {header['kind']!r} instead of {kind!r}")
    return header


class Links:
    """Connections to all receivers of a donor; one thread uses them, any thread may ``abort``."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        token: str,
        timeout_s: float,
        *,
        share_memory: bool = True,
    ) -> None:
        self._token = token
        self._timeout_s = timeout_s
        self._share_memory = share_memory
        self._addresses = tuple(addresses)
        self._selector = selectors.DefaultSelector()
        self._wake_up, self._woken = socket.socketpair()
        # ``wake`` is called by the training thread, which must never wait here.
        self._wake_up.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._sockets: list[socket.socket] = []
        self._aborted = False
        self._permission: ReadingPermission | None = None
        self.open: list[Link] = []
        self.num_done = 0
        """Number of receivers that have everything."""
        self.failures: dict[tuple[str, int], Exception] = {}

    def connect(self, form: Frame) -> None:
        """Connect to every receiver, and compare the form of the state.

        A receiver that cannot be reached, or that refuses the form, is noted as a failure. Nothing
        else is sent until all have answered.

        Args:
            form: frame of kind ``form``, which ``Receiver`` compares with its own state.

        Raises:
            TransferError: the form cannot be sent to any receiver.
        """
        for address in self._addresses:
            try:
                self.open.append(self._connect(address))
            except (OSError, TransferError) as error:
                self.failures[address] = error
        self.send(form)
        self.wait(lambda link: not link.fits)

    def _connect(self, address: tuple[str, int]) -> Link:
        link = Link(address)
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        # Before the check of ``_aborted``: ``abort`` sets that first, so it misses no socket.
        self._sockets.append(sock)
        try:
            channel = Channel(sock, self._timeout_s)
            if self._aborted:
                raise TransferError("cancelled")
            try:
                sock.connect(address)
            except OSError as error:
                raise PeerLost(f"no receiver at {address[0]}:{address[1]}: {error}") from None
            link.pulls = self._greet(channel)
        except BaseException:
            sock.close()
            raise
        link.channel = channel
        channel.limit = MAX_HEADER_BYTES
        self._selector.register(sock, selectors.EVENT_READ, link)
        return link

    def _greet(self, channel: Channel) -> bool:
        """Show the token, and return whether the receiver can read this process's memory."""
        channel.send(encode({"kind": "greeting", "version": VERSION, "token": self._token}))
        receiver = _expect(channel.receive(), "hello")
        host = host_identity()
        if not self._share_memory or not host or receiver.get("host") != host:
            channel.send(encode({"kind": "stream"}))
            _expect(channel.receive(), "welcome")
            return False
        # Before the probe: the receiver may need this permission to read it.
        if len(self._addresses) == 1:  # the kernel knows one permitted process at a time
            self._permission = ReadingPermission(int(receiver["pid"]))
        proof = secrets.token_bytes(PROBE_BYTES)
        probe = torch.frombuffer(bytearray(proof), dtype=torch.uint8)
        channel.send(encode({"kind": "probe", "pid": os.getpid(), "memory": regions([probe])}))
        shown = str(_expect(channel.receive(), "welcome").get("proof", ""))
        # Only a receiver that shows the probe's bytes reads memory: the kernel may forbid it.
        return hmac.compare_digest(shown, proof.hex())

    def send(self, frame: Frame) -> None:
        """Send a frame to all; return when the payload's memory may change again.

        A receiver that fails is dropped and its failure noted.

        Raises:
            TransferError: the frame cannot be sent to any receiver.
        """
        # Encoded before anything is sent, so that an error concerns all receivers alike.
        ways = {link.pulls for link in self.open}
        heads = {pulls: frame.pulled if pulls else frame.streamed for pulls in ways}
        # Receivers that read the memory come first: they read while the others are being sent to.
        for link in sorted(self.open, key=lambda link: not link.pulls):
            assert link.channel is not None
            try:
                link.channel.send(heads[link.pulls], () if link.pulls else frame.payload)
                link.num_sent += link.pulls and frame.has_payload
            except TransferError as error:
                self.drop(link, error)
        self.wait(lambda link: link.pulls and link.num_pulled < link.num_sent)

    def wait(self, is_waited_for: Callable[[Link], bool]) -> None:
        """Listen until the condition holds for no receiver; drop receivers that take too long."""
        # One deadline for the whole wait: messages do not prolong it.
        until = time.monotonic() + self._timeout_s
        while waited := [link for link in self.open if is_waited_for(link)]:
            left = until - time.monotonic()
            if left <= 0:
                for link in waited:
                    self.drop(link, PeerLost("the receiver does not answer"))
                return
            self.listen(left)

    def listen(self, timeout_s: float) -> bool:
        """Take receivers' messages, or a ``wake``. Return False if nothing came in time."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            link: Link | None = key.data
            if link is None:
                with suppress(OSError):
                    self._woken.recv(4096)
                continue
            assert link.channel is not None
            try:
                for header in link.channel.arrived():
                    link.take(header)
                if link.is_done:
                    self.drop(link, PeerLost("done"))
            except TransferError as error:
                self.drop(link, error)
        return bool(ready)

    def drop(self, link: Link, error: Exception) -> None:
        """Disconnect a receiver; note the error, unless the receiver has everything."""
        assert link.channel is not None
        if link.is_done:
            self.num_done += 1  # a receiver that is done hangs up, which is no failure
        else:
            self.failures.setdefault(link.address, error)
        self.open.remove(link)
        self._selector.unregister(link.channel.socket)
        link.channel.close()

    def wake(self) -> None:
        """End a ``listen`` from any thread."""
        with suppress(OSError):  # full: ``listen`` wakes up anyway; closed: no thread listens
            self._wake_up.send(b"\0")

    def abort(self) -> None:
        """Break all connections. Any thread may call this."""
        self._aborted = True
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.wake()

    def close(self) -> None:
        """Free everything, on the thread that used it."""
        # First: no process may read this one's memory after the transfer.
        if self._permission is not None:
            self._permission.end()
        for link in self.open:
            assert link.channel is not None
            link.channel.close()
        self.open.clear()
        self._selector.close()
        self._wake_up.close()
        self._woken.close()
