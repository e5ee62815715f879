"""Frames on a socket between a donor and a receiver: a JSON header, then raw bytes.

A frame is the header's length (4 bytes, big-endian), the header (one JSON object with a ``kind``),
and a payload. Both ends know the payload's size from the header and their own state, so no length
that arrives decides how much memory is allocated. Nothing that arrives is ever executed.

Before the token was checked, a header has a much smaller limit. Frames are neither encrypted nor
signed: use them on loopback, or on a network that only the cluster's own hosts can reach.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import torch

from harness.errors import WorkerError

Header: TypeAlias = dict[str, Any]

MAX_GREETING_BYTES = 4096
MAX_HEADER_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 20
_LENGTH = struct.Struct(">I")


class TransferError(WorkerError):
    """Failure of a transfer of state; the text says why."""


class PeerLost(TransferError):  # noqa: N818 - what happened, as GroupLost
    """The other side has gone, or was silent for too long."""


class Cancelled(TransferError):  # noqa: N818
    """This side was told to give up."""


def encode(header: Mapping[str, Any]) -> bytes:
    """Return a header as it is sent.

    Raises:
        TransferError: it is too long, or holds something that JSON cannot hold.
    """
    try:
        text = json.dumps(header, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise TransferError(f"a {header.get('kind')!r} header cannot be sent: {error}") from None
    if len(text) > MAX_HEADER_BYTES:
        raise TransferError(
            f"a {header.get('kind')!r} header has {len(text)} bytes; {MAX_HEADER_BYTES} is the"
            " limit"
        )
    return _LENGTH.pack(len(text)) + text


def decode(text: bytes) -> Header:
    """Return the header in these bytes.

    Raises:
        TransferError: it is not a JSON object with a kind.
    """
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise TransferError("a header that is not JSON") from None
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise TransferError("a header that is not a JSON object with a kind")
    return header


class Channel:
    """One end of a connection. One thread sends and receives; any thread may ``abort``."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self.socket = sock
        self.limit = MAX_GREETING_BYTES
        """Most bytes of a header that arrives; raised once the token was checked."""
        self.until: float | None = None
        """Time by which all awaited bytes must have arrived, on ``time.monotonic``; None: no limit.

        Without it, a peer that sends single bytes slowly would never exceed the time-out.
        """
        self._arriving = bytearray()
        sock.settimeout(timeout_s)
        # Small headers must not wait until the frame before was acknowledged (Nagle's algorithm).
        with suppress(OSError):  # a Unix socket has no such option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame: bytes, payload: Sequence[torch.Tensor] = ()) -> None:
        """Send an encoded header and the memory of byte tensors.

        Raises:
            PeerLost: the other side has gone, or does not read.
        """
        try:
            self.socket.sendall(frame)
            for tensor in payload:
                view = tensor.numpy().data
                at = 0
                while at < len(view):  # in chunks: the time-out is for each call
                    at += self.socket.send(view[at : at + _CHUNK_BYTES])
        except OSError as error:
            raise PeerLost(f"nothing can be sent: {error}") from None

    def receive(self) -> Header:
        """Wait for the next header, and return it.

        Raises:
            PeerLost: the other side has gone or is silent.
            TransferError: what came is no header.
        """
        length = bytearray(_LENGTH.size)
        self._fill(memoryview(length))
        text = bytearray(self._checked(_LENGTH.unpack(length)[0]))
        self._fill(memoryview(text))
        return decode(bytes(text))

    def receive_into(self, payload: Sequence[torch.Tensor]) -> None:
        """Fill byte tensors with the bytes that arrive.

        Raises:
            PeerLost: the other side has gone or is silent.
        """
        for tensor in payload:
            self._fill(tensor.numpy().data)

    def arrived(self) -> list[Header]:
        """Return the headers without payload that have arrived; the socket must be readable.

        Raises:
            PeerLost: the other side has gone.
            TransferError: what came is no header.
        """
        try:
            data = self.socket.recv(1 << 16)
        except OSError as error:
            raise PeerLost(f"the connection broke: {error}") from None
        if not data:
            raise PeerLost("the other side has closed the connection")
        self._arriving += data
        headers = []
        while len(self._arriving) >= _LENGTH.size:
            end = _LENGTH.size + self._checked(_LENGTH.unpack_from(self._arriving)[0])
            if len(self._arriving) < end:
                break
            headers.append(decode(bytes(self._arriving[_LENGTH.size : end])))
            del self._arriving[:end]
        return headers

    def abort(self) -> None:
        """End the connection from any thread; a thread that waits in it fails at once."""
        # Not ``close``: a thread that waits in the socket would not wake up, and another connection
        # could get the socket's descriptor while that thread still uses it.
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free the connection, on the thread that used it. Safe to call twice."""
        self.abort()
        self.socket.close()

    def _checked(self, length: int) -> int:
        if length > self.limit:
            raise TransferError(f"a header of {length} bytes; {self.limit} is the limit")
        return length

    def _fill(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            try:
                if self.until is not None:
                    # Never 0, which would make the socket non-blocking.
                    self.socket.settimeout(max(1e-3, self.until - time.monotonic()))
                count = self.socket.recv_into(view[at:])
            except TimeoutError:
                raise PeerLost("the other side is silent") from None
            except OSError as error:
                raise PeerLost(f"the connection broke: {error}") from None
            if not count:
                raise PeerLost("the other side has closed the connection")
            at += count
