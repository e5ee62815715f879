"""The control channel between a driver and its workers: JSON lines over TCP.

A message is one JSON object on one line. Anything else is refused, so the channel never executes
what arrives. A worker's first line is its greeting with the job's token. Until the token is
checked, a much smaller size limit applies.

The channel has no encryption or signature. Use it on loopback, or on a network that only the
cluster's own hosts can reach.
"""

from __future__ import annotations

import json
import os
import queue
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from harness.files.bounded_file import parse_json

Message: TypeAlias = dict[str, Any]

TOKEN_VARIABLE = "ELASTRACE_CONTROL_TOKEN"
"""Environment variable in which a worker finds its job's token; removed once read."""
BEAT: Message = {"kind": "beat"}
"""Sign of life; a worker answers the driver's beat with the same message."""
MAX_MESSAGE_BYTES = 1 << 20
MAX_GREETING_BYTES = 4096
CONNECT_TIMEOUT_S = 30.0
EXIT_DRIVER_GONE = 76
"""Exit code of a worker that has lost its driver."""


class ControlError(Exception):
    """The other side violated the protocol or refused this process; the text gives the reason."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line.

    Raises:
        ControlError: the message is too long, or holds something that JSON cannot express.
    """
    try:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise ControlError(
            f"a {message.get('kind')!r} message cannot be sent: {error};"
            " only numbers, texts, lists and mappings can"
        ) from None
    if len(line) > MAX_MESSAGE_BYTES:
        raise ControlError(
            f"a {message.get('kind')!r} message has {len(line)} bytes;"
            f" {MAX_MESSAGE_BYTES} is the limit"
        )
    return line


class LineBuffer:
    """Parser that turns arriving bytes into messages."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self.limit = limit
        """Limit on the bytes of one message; may be raised later."""
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that ``data`` completes, singly, so that the limit may be raised
        between them.

        Raises:
            ControlError: a line is longer than the limit, or is not a JSON object.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._measure(line)
            try:
                message = parse_json(line)
            except ValueError:
                raise ControlError("a line that is not JSON") from None
            if not isinstance(message, dict):
                raise ControlError("a line that is not a JSON object")
            yield message
        self._measure(self._rest)

    def _measure(self, line: bytes) -> None:
        if len(line) > self.limit:
            raise ControlError(f"a message of {len(line)} bytes; {self.limit} is the limit")


class ControlClient:
    """A worker's end of the channel. A thread reads messages; the training thread only looks into a
    queue."""

    def __init__(
        self,
        address: str,
        port: int,
        greeting: Mapping[str, Any],
        *,
        on_message: Callable[[Message], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Connect and send the greeting.

        Args:
            address: address of the other side.
            port: port of the other side.
            greeting: first message, with the token.
            on_message: takes every message on the reading thread. None: beats are answered, and all
                other messages go to the inbox.
            on_end: called when the other side has closed the connection. None: this process then
                exits, since its training serves no driver any more.

        Raises:
            OSError: no process listens at the address.
        """
        self._socket = socket.create_connection((address, port), CONNECT_TIMEOUT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._on_message = on_message or self._take
        self._on_end = on_end
        # The training thread sends, and the reading thread answers beats: lines must not mix.
        self._lock = threading.Lock()
        self._leaving = False
        self.send(greeting)
        threading.Thread(target=self._read, name="control", daemon=True).start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; wait if the socket's buffer is full."""
        line = encode(message)
        with self._lock:
            self._socket.sendall(line)

    def offer(self, message: Mapping[str, Any]) -> None:
        """Send a message only if the socket has room; for messages that the next one supersedes."""
        if select.select([], [self._socket], [], 0)[1]:
            self.send(message)

    def receive(self, timeout_s: float | None) -> Message:
        """Return the next message.

        Raises:
            ControlError: no message came in time.
        """
        try:
            return self.inbox.get(timeout=timeout_s)
        except queue.Empty:
            raise ControlError(f"the driver has said nothing for {timeout_s} s") from None

    def arrived(self) -> list[Message]:
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
        if message.get("kind") == BEAT["kind"]:
            self.send(BEAT)
        else:
            self.inbox.put(message)

    def _read(self) -> None:
        buffer = LineBuffer()
        while True:
            try:
                data = self._socket.recv(1 << 16)
                for message in buffer.feed(data) if data else []:
                    self._on_message(message)
            except (OSError, ControlError):
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
