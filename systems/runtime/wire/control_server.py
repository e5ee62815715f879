"""The driver's end of the control channel: one listener, many workers, no thread."""

from __future__ import annotations

import hmac
import logging
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import msgspec

from systems.runtime.wire.control import MAX_GREETING_BYTES, LineBuffer
from systems.runtime.wire.protocol import (
    MAX_MESSAGE_BYTES,
    VERSION,
    ControlError,
    Count,
    Greeting,
    Inbound,
    Message,
    decoded,
    encode,
)

# A connection that never greets must not hold one of the ``MAX_STRANGERS`` places.
GREETING_TIMEOUT_S = 10.0
MAX_STRANGERS = 256
"""Limit on connections that have not greeted yet; more are turned away."""

_log = logging.getLogger(__name__)


class Channels:
    """Greetings that a server accepts, and the messages that may follow each of them."""

    def __init__(self, inbound: Mapping[type[Greeting], Inbound]) -> None:
        self.inbound = dict(inbound)
        self.greetings = Inbound(*self.inbound)


@dataclass(frozen=True, slots=True)
class Admission:
    """Condition under which the processes of a job are let in."""

    token: str
    """Token that each of them must show."""
    channels: Channels
    """Greetings and messages that are accepted."""


Admit: TypeAlias = Callable[[str], Admission | None]
"""Returns the admission to a job, or None if there is no such job."""


class _Opening(msgspec.Struct):
    """Fields of every greeting of every version, by which a stranger is judged."""

    job_id: str
    token: str
    version: Count = 0


_openings = msgspec.json.Decoder(_Opening)


class Connection:
    """A worker's connection; it counts as known once its greeting was accepted."""

    def __init__(
        self, sock: socket.socket, peer: str, decode: Callable[[Connection, bytes], Any]
    ) -> None:
        self.socket = sock
        self.peer = peer
        self.since = time.monotonic()
        self.greeting: Any = None
        """``Greeting`` of a known process; None before it."""
        self.is_open = True
        self.buffer: LineBuffer[Any] = LineBuffer(partial(decode, self), MAX_GREETING_BYTES)
        self.outgoing = b""
        self.heard_at = self.since
        """Time at which its last message was handled, on ``time.monotonic``."""

    @property
    def is_of_this_host(self) -> bool:
        """True if the other end is a process of this host, which both ends' equal addresses
        show."""
        try:
            return bool(self.socket.getsockname()[0] == self.socket.getpeername()[0])
        except OSError:
            return False


class ControlServer:
    """Server that accepts workers, checks their tokens and carries messages both ways.

    The server works only inside ``wait``, ``send`` and ``drain``. No call blocks for longer than
    its time-out.
    """

    def __init__(
        self,
        bind: str,
        admit: Admit,
        on_message: Callable[[Connection, Any], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        """Begin to listen on a free port of the address ``bind``.

        Args:
            bind: address of this machine to listen on.
            admit: returns the admission to a job.
            on_message: called with every message of a known worker, its greeting first.
            on_closed: called once when a known worker's connection has ended.

        Raises:
            OSError: the address is not one of this machine's.
        """
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._listener = socket.create_server((bind, 0), family=family, backlog=128)
        self._listener.setblocking(False)
        self._admit = admit
        self._on_message = on_message
        self._on_closed = on_closed
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._strangers: set[Connection] = set()
        self._known: set[Connection] = set()

    @property
    def address(self) -> tuple[str, int]:
        """Address and port on which the server listens."""
        name = self._listener.getsockname()
        return str(name[0]), int(name[1])

    def fileno(self) -> int:
        """Return a descriptor that is readable when ``wait`` has something to handle."""
        return self._selector.fileno()

    def wait(self, timeout_s: float) -> None:
        """Handle what arrives; return after the first of it, or after ``timeout_s``."""
        for key, events in self._selector.select(max(0.0, timeout_s)):
            if key.fileobj is self._listener:
                self._accept()
                continue
            connection: Connection = key.data
            if events & selectors.EVENT_WRITE:
                self._flush(connection)
            if events & selectors.EVENT_READ:
                self.drain(connection)
        now = time.monotonic()
        for connection in list(self._strangers):
            if now - connection.since > GREETING_TIMEOUT_S:
                self._refuse(connection, "no greeting in time")

    def send(self, connection: Connection, message: Message) -> None:
        """Queue a message; drop it if the connection is closed."""
        if connection.is_open:
            connection.outgoing += encode(message)
            self._flush(connection)

    def drain(self, connection: Connection) -> None:
        """Handle everything that a connection has sent so far, without waiting."""
        while connection.is_open:
            try:
                data = connection.socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close_connection(connection)
                return
            try:
                for message in connection.buffer.feed(data):
                    self._handle(connection, message)
            except ControlError as error:
                self._refuse(connection, str(error))

    def close_connection(self, connection: Connection) -> None:
        """End a connection; safe to call twice."""
        if not connection.is_open:
            return
        connection.is_open = False
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._strangers.discard(connection)
        if connection in self._known:
            self._known.discard(connection)
            self._on_closed(connection)

    def close(self) -> None:
        """End every connection and stop listening; safe to call twice."""
        for connection in [*self._strangers, *self._known]:
            self.close_connection(connection)
        if self._listener.fileno() >= 0:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._selector.close()

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return  # the peer left between select and accept
        if len(self._strangers) >= MAX_STRANGERS:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, f"{peer[0]}:{peer[1]}", self._greet)
        self._strangers.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _greet(self, connection: Connection, line: bytes) -> Greeting:
        """Return the greeting on a stranger's first line, without its token.

        The token is judged before anything else, and the rest of the line only after it.

        Raises:
            ControlError: the line is no greeting, its token is wrong, or its version another one.
        """
        opening: _Opening = decoded(_openings, line)
        admission = self._admit(opening.job_id)
        # Compare in constant time, so that the time does not reveal the token.
        if admission is None or not hmac.compare_digest(
            opening.token.encode(), admission.token.encode()
        ):
            raise ControlError("the token is wrong")
        if opening.version != VERSION:
            raise ControlError(
                f"it speaks version {opening.version} of the control protocol, and this process"
                f" version {VERSION}; run one version of Elastrace on all hosts"
            )
        greeting = admission.channels.greetings(line)
        assert isinstance(greeting, Greeting)
        connection.buffer.decode = admission.channels.inbound[type(greeting)]
        connection.buffer.limit = MAX_MESSAGE_BYTES
        connection.buffer.sender = f"{greeting.sender} at {connection.peer}"
        return msgspec.structs.replace(greeting, token="")

    def _handle(self, connection: Connection, message: Any) -> None:
        if not connection.is_open:
            return  # an earlier line of the same packet was refused
        connection.heard_at = time.monotonic()
        if connection.greeting is None:
            connection.greeting = message
            self._strangers.discard(connection)
            self._known.add(connection)
        self._on_message(connection, message)

    def _refuse(self, connection: Connection, reason: str) -> None:
        _log.warning("control connection from %s refused: %s", connection.peer, reason)
        self.close_connection(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            while connection.outgoing:
                sent = connection.socket.send(connection.outgoing)
                connection.outgoing = connection.outgoing[sent:]
        except BlockingIOError:
            pass
        except OSError:
            # The peer is gone. Its last messages are still to be read; the end of the connection
            # follows them.
            connection.outgoing = b""
        events = selectors.EVENT_READ
        if connection.outgoing:
            events |= selectors.EVENT_WRITE
        self._selector.modify(connection.socket, events, connection)
