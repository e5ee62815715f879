"""Key store in torch's TCPStore, the store that a job has in any case.

Behaviour of TCPStore that our tests check (torch 2.11 and later):

- ``compare_set(key, "", x)`` sets a key only if it is missing or empty.
- ``compare_set(key, y, x)`` of a missing key sets nothing *and returns y*. So its answer tells
  success only if no other client ever writes the text ``x``. It is also the only way to read
  without waiting, since ``get`` of a missing key waits.
- A wait holds its client's lock, and a wait that times out writes a warning to stderr. So every
  thread has its own client, and nothing here waits with a time-out.
- A call to a store that is stopped, but not dead, hangs whatever the client's time-out is.

So a value is stored as ``nonce|value``: no two writes are alike, and the answer is certain. A key
is void if it is missing or its value is empty; no key is ever deleted.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore

from systems.elastic.election.keystore import StoreLost
from systems.runtime.wire.name_lookups import no_name_lookups

CONNECT_TIMEOUT_S = 5.0
_NOTHING = "?"
"""A text that is never stored, since it has no nonce."""
_PREFIX = "keystore/"
_FOREVER = timedelta(days=365)


class TcpKeyStore:
    """A ``KeyStore`` in the TCPStore that listens at an address.

    Each watcher is woken through its own queue, whose name is stored next to the key. A watcher
    that has gone leaves its queue's name and one byte per change behind.
    """

    def __init__(self, address: str, port: int) -> None:
        """Connect.

        Raises:
            StoreLost: no store listens there.
        """
        self._address = address
        self._port = port
        self._clients = threading.local()
        self._queues: list[str] = []
        self._is_lost = False
        self._is_closed = False
        self._client()

    def get(self, key: str) -> str | None:
        """Implement ``KeyStore.get``."""
        with self._guard() as client:
            return _value(_stored(client, key))

    def compare_and_swap(
        self, key: str, expected: str | None, desired: str, quiet: bool = False
    ) -> bool:
        """Implement ``KeyStore.compare_and_swap``."""
        if not desired:
            raise ValueError(f"key {key!r}: an empty text means a void key; use erase")
        return self._swap(key, expected, desired, quiet)

    def erase(self, key: str, expected: str) -> bool:
        """Implement ``KeyStore.erase``."""
        return self._swap(key, expected, "", quiet=False)

    def watch(self, key: str, on_change: Callable[[], None]) -> None:
        """Implement ``KeyStore.watch``."""
        queue = f"{_PREFIX}{key}/watcher/{secrets.token_hex(8)}"
        with self._guard() as client:
            waiting = self._connect()
            # No time-out: this client waits for changes, and a wait that times out writes to
            # stderr.
            waiting.set_timeout(_FOREVER)
            client.append(_watchers(key), queue + " ")  # type: ignore[attr-defined]
        self._queues.append(queue)
        threading.Thread(
            target=self._watch, args=(waiting, queue, on_change), name=f"watch {key}", daemon=True
        ).start()

    def close(self) -> None:
        """Implement ``KeyStore.close``."""
        if self._is_closed:
            return
        with contextlib.suppress(StoreLost), self._guard() as client:
            # Before the pushes: the watching threads that they wake have to see it.
            self._is_closed = True
            for queue in self._queues:
                client.queue_push(queue, ".")
        self._is_closed = True
        self._clients = threading.local()

    def _swap(self, key: str, expected: str | None, desired: str, quiet: bool) -> bool:
        with self._guard() as client:
            while True:
                stored = _stored(client, key)
                if _value(stored) != expected:
                    return False
                ours = f"{secrets.token_hex(8)}|{desired}"
                if client.compare_set(_PREFIX + key, stored, ours).decode() == ours:
                    break
                # Another client was faster, possibly with the very value that is expected: read
                # again.
            # After the swap: a watcher that is woken reads the new text.
            if not quiet:
                watchers = client.compare_set(_watchers(key), _NOTHING, _NOTHING).decode()
                for queue in watchers.split() if watchers != _NOTHING else []:
                    client.queue_push(queue, ".")
            return True

    def _watch(self, client: TCPStore, queue: str, on_change: Callable[[], None]) -> None:
        try:
            while not self._is_closed:
                client.queue_pop(queue)
                if not self._is_closed:
                    on_change()
        except RuntimeError:
            self._is_lost = True
            if not self._is_closed:
                on_change()

    @contextlib.contextmanager
    def _guard(self) -> Iterator[TCPStore]:
        if self._is_lost or self._is_closed:
            raise StoreLost(f"the connection to the store at {self._place} has ended")
        try:
            yield self._client()
        except RuntimeError as error:
            self._is_lost = True
            raise StoreLost(f"the store at {self._place} is gone: {_first_line(error)}") from None

    def _client(self) -> TCPStore:
        client: TCPStore | None = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = self._connect()
        return client

    def _connect(self) -> TCPStore:
        try:
            # Tried first, since TCPStore's own client retries and fills stderr meanwhile.
            socket.create_connection((self._address, self._port), CONNECT_TIMEOUT_S).close()
            with no_name_lookups(self._address):
                return TCPStore(
                    self._address,
                    self._port,
                    is_master=False,
                    wait_for_workers=False,
                    timeout=timedelta(seconds=CONNECT_TIMEOUT_S),
                )
        except (OSError, RuntimeError) as error:
            raise StoreLost(f"no store at {self._place}: {_first_line(error)}") from None

    @property
    def _place(self) -> str:
        return f"{self._address}:{self._port}"


def _stored(client: TCPStore, key: str) -> str:
    stored = client.compare_set(_PREFIX + key, _NOTHING, _NOTHING).decode()
    return "" if stored == _NOTHING else stored


def _value(stored: str) -> str | None:
    return stored.partition("|")[2] or None


def _watchers(key: str) -> str:
    return f"{_PREFIX}{key}/watchers"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
