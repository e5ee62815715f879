"""The control channel between a driver and its workers: JSON lines over TCP.

A message is one JSON object on one line (``protocol``). Anything else is refused, so the channel
never executes what arrives. A worker's first line is its greeting with the job's token. Until the
token is checked, a much smaller size limit applies.

The channel has no encryption or signature. Use it on loopback, or on a network that only the
cluster's own hosts can reach.
"""

from __future__ import annotations

import os
import queue
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from systems.runtime.wire.messages import Beat, BeatRequest, CheckpointKnown
from systems.runtime.wire.protocol import (
    MAX_MESSAGE_BYTES,
    ControlError,
    Greeting,
    Inbound,
    Message,
    encode,
    kind_of,
)

TOKEN_VARIABLE = "ELASTRACE_CONTROL_TOKEN"
"""Environment variable in which a worker finds its job's token; removed once read."""
MAX_GREETING_BYTES = 4096
CONNECT_TIMEOUT_S = 30.0
EXIT_DRIVER_GONE = 76
"""Exit code of a worker that has lost its driver."""

L = TypeVar("L")
M = TypeVar("M", bound=Message)


class LineBuffer(Generic[L]):
    """Parser that turns arriving bytes into messages."""

    def __init__(
        self, decode: Callable[[bytes], L], limit: int = MAX_MESSAGE_BYTES, sender: str = ""
    ) -> None:
        """Begin without any byte.

        Args:
            decode: returns the message on a line, or raises ControlError.
            limit: limit on the bytes of one message.
            sender: name of the process that sends the bytes, for the reasons of refusals.
        """
        self.decode = decode
        """Decoder of the next line; may be replaced later."""
        self.limit = limit
        """Limit on the bytes of one message; may be raised later."""
        self.sender = sender
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[L]:
        """Yield the messages that ``data`` completes, singly, so that limit and decoder may change
        between them.

        Raises:
            ControlError: a line is longer than the limit, or is no message; the text names the
                sender.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._measure(line)
            try:
                message = self.decode(line)
            except ControlError as error:
                raise ControlError(self._of_sender(str(error))) from None
            yield message
        self._measure(self._rest)

    def _measure(self, line: bytes) -> None:
        if len(line) > self.limit:
            fault = f"a message of {len(line)} bytes; {self.limit} is the limit"
            raise ControlError(self._of_sender(fault))

    def _of_sender(self, fault: str) -> str:
        return f"{self.sender}: {fault}" if self.sender else fault


class ControlClient:
    """A worker's end of the channel. A thread reads messages; the training thread only looks into a
    queue."""

    def __init__(
        self,
        address: str,
        port: int,
        greeting: Greeting,
        inbound: Inbound,
        *,
        on_message: Callable[[Any], None] | None = None,
        on_end: Callable[[], None] | None = None,
        sender: str = "the driver",
    ) -> None:
        """Connect and send the greeting.

        Args:
            address: address of the other side.
            port: port of the other side.
            greeting: first message, with the token.
            inbound: messages that this side accepts; any other ends the connection.
            on_message: takes every message on the reading thread. None: beats are answered, a
                checkpoint that the driver knows is noted, and all other messages go to the inbox.
            on_end: called when the other side has closed the connection. None: this process then
                exits, since its training serves no driver any more.
            sender: name of the other side, for the reasons of refusals.

        Raises:
            OSError: no process listens at the address.
        """
        self._socket = socket.create_connection((address, port), CONNECT_TIMEOUT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Messages that nothing has taken yet, and what other threads of this process put there."""
        self.known_checkpoint: str | None = None
        """Manifest of the last checkpoint that the driver is known to have heard of."""
        self._on_message = on_message or self._take
        self._on_end = on_end
        self._buffer: LineBuffer[Message] = LineBuffer(inbound, sender=sender)
        # The training thread sends, and the reading thread answers beats: lines must not mix.
        self._lock = threading.Lock()
        self._leaving = False
        self.send(greeting)
        threading.Thread(target=self._read, name="control", daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message; wait if the socket's buffer is full."""
        line = encode(message)
        with self._lock:
            self._socket.sendall(line)

    def offer(self, message: Message) -> None:
        """Send a message only if the socket has room; for messages that the next one supersedes."""
        if select.select([], [self._socket], [], 0)[1]:
            self.send(message)

    def next_message(self, timeout_s: float | None) -> Message:
        """Return the next message, which is one of ``inbound``.

        Raises:
            ControlError: no message came in time.
        """
        try:
            message: Message = self.inbox.get(timeout=timeout_s)
        except queue.Empty:
            raise ControlError(f"the driver has said nothing for {timeout_s} s") from None
        return message

    def expect(self, kind: type[M], timeout_s: float | None = None) -> M:
        """Return the next message, which must be of this class.

        Raises:
            ControlError: another message came, or none in time.
        """
        message = self.next_message(timeout_s)
        if not isinstance(message, kind):
            raise ControlError(f"the driver sent {kind_of(message)!r} instead of {kind_of(kind)!r}")
        return message

    def arrived(self) -> list[Any]:
        """Return the messages that have already arrived, without waiting."""
        messages = []
        while True:
            try:
                messages.append(self.inbox.get_nowait())
            except queue.Empty:
                return messages

    def leave(self) -> None:
        """Say that this process sends nothing more; from now on the driver may close the
        connection."""
        self._leaving = True
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the connection, whatever is in progress on it."""
        self._leaving = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _take(self, message: Message) -> None:
        """Answer a beat on the reading thread, so that a long step does not delay it; queue all
        else."""
        if isinstance(message, BeatRequest):
            self.send(Beat())
        elif isinstance(message, CheckpointKnown):
            self.known_checkpoint = message.path
        else:
            self.inbox.put(message)

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 16)
                for message in self._buffer.feed(data) if data else []:
                    self._on_message(message)
            except OSError:
                data = b""
            except ControlError as error:
                with suppress(OSError):  # the log may not be writable
                    print(f"control connection ended: {error}", file=sys.stderr, flush=True)
                data = b""
            if not data and self._leaving:
                return
            if not data and self._on_end is not None:
                self._on_end()
                return
            if not data:
                # The driver is gone. The main thread may be in a collective that never returns, so
                # only a hard exit ends this process.
                os._exit(EXIT_DRIVER_GONE)
