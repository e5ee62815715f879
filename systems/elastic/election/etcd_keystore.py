"""A key store in etcd (3.4 and later), through its HTTP/JSON gateway and the standard library.

A swap is one transaction of etcd. Every key belongs to a lease of the process that wrote it last,
which is kept alive while that process writes. So keys that a job leaves behind vanish ``lease_s``
after its last refresh. The lease only cleans up: elections measure a shorter expiry themselves.

An ``http`` endpoint is open and unencrypted. Like the control channel, it belongs on loopback or
on a network that only the cluster's own hosts can reach. With ``https`` the certificate must be one
that this host trusts (OpenSSL's ``SSL_CERT_FILE`` names others). If etcd asks for a user, name and
password come from the environment, so that a stored configuration never contains them. Client
certificates are not supported.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from systems.elastic.election.keystore import StoreLost

DEFAULT_ENDPOINT = "http://127.0.0.1:2379"
KEYS = "elastrace/"
"""Prefix of all Elastrace keys in an etcd; its user needs to read and write these."""
# In whole seconds. The lease of a key outlives every expiry (``open_etcd``): it only cleans up.
LEASE_S = 10
TIMEOUT_S = 5.0
USER_VARIABLE = "ELASTRACE_ETCD_USER"
PASSWORD_VARIABLE = "ELASTRACE_ETCD_PASSWORD"
_DEFAULT_PORT = 2379


def endpoint_problems(endpoints: Sequence[str]) -> list[str]:
    """Return the problems in the texts of these endpoints, without connecting to any."""
    if not endpoints:
        return [f"etcd_endpoints is empty; give one at least, such as {DEFAULT_ENDPOINT}"]
    problems = []
    for endpoint in endpoints:
        try:
            url = urlsplit(endpoint)
            is_whole = url.hostname and url.port != 0 and not (url.query or url.fragment)
        except ValueError:
            is_whole = False
        if not is_whole or url.scheme not in ("http", "https") or url.path.strip("/"):
            problems.append(
                f"etcd_endpoints has {endpoint!r}; an endpoint is like {DEFAULT_ENDPOINT}"
            )
        elif url.username is not None:
            problems.append(
                f"etcd_endpoints has a user in its URL of {url.hostname}, and options are stored"
                f" with results; set {USER_VARIABLE} and {PASSWORD_VARIABLE} in the environment"
            )
    return problems


def no_etcd(endpoints: Sequence[str]) -> str | None:
    """Return why these endpoints are unusable, and what to do; None if one is usable."""
    try:
        open_etcd(endpoints, KEYS).close()
    except StoreLost as error:
        return (
            f"etcd_endpoints: {error}; start etcd there (Debian package etcd-server), correct"
            f" etcd_endpoints (or {USER_VARIABLE} and {PASSWORD_VARIABLE}), or use store=embedded"
        )
    return None


def open_etcd(endpoints: Sequence[str], prefix: str, expiry_s: float = 0.0) -> EtcdKeyStore:
    """Return the store at the first of these endpoints that answers.

    Args:
        endpoints: members of one etcd.
        prefix: text put before every key.
        expiry_s: expiry of the election; the lease of a key is longer.

    Raises:
        StoreLost: no endpoint answers; the text names the trouble of each.
    """
    troubles = []
    for endpoint in endpoints:
        try:
            return EtcdKeyStore(endpoint, prefix, max(LEASE_S, math.ceil(2 * expiry_s)))
        except StoreLost as error:
            troubles.append(str(error))
    raise StoreLost(", ".join(troubles))


class EtcdKeyStore:
    """A ``KeyStore`` in the etcd at an endpoint."""

    def __init__(
        self,
        endpoint: str,
        prefix: str = KEYS,
        lease_s: int = LEASE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Connect.

        Args:
            endpoint: where etcd listens for clients, as ``http://host:port`` or ``https://``.
            prefix: text put before every key.
            lease_s: life of a key after its writer's last swap; several times the time between
                two refreshes. etcd prolongs a lease that is shorter than its own minimum.
            timeout_s: longest time for one request.

        Raises:
            StoreLost: no etcd answers there, or it refuses this user.
            ValueError: ``lease_s`` is below 1.
        """
        if lease_s < 1:
            raise ValueError(f"lease_s={lease_s}: etcd counts whole seconds from 1")
        url = urlsplit(endpoint)
        self._endpoint = endpoint
        self._address = (url.hostname or "", url.port or _DEFAULT_PORT)
        self._context = ssl.create_default_context() if url.scheme == "https" else None
        self._prefix = prefix
        self._lease_s = lease_s
        self._timeout_s = timeout_s
        self._connections = threading.local()  # a connection carries one request at a time
        self._lease_lock = threading.Lock()
        self._lease: str | None = None
        self._kept_alive = 0.0
        self._watching: list[http.client.HTTPConnection] = []
        self._is_lost = False
        self._is_closed = False
        self._headers: dict[str, str] = {}
        user = os.environ.get(USER_VARIABLE)
        if user:
            who = {"name": user, "password": os.environ.get(PASSWORD_VARIABLE, "")}
            self._headers["Authorization"] = self._call("auth/authenticate", who)["token"]
        # A first request, so that a wrong endpoint or user shows here. It reads below the prefix,
        # since the user may have no right to other keys.
        self.get("")

    def get(self, key: str) -> str | None:
        """See ``KeyStore.get``."""
        found = self._call("kv/range", {"key": self._key(key)}).get("kvs")
        return _decode(found[0]["value"]) if found else None

    def compare_and_swap(
        self, key: str, expected: str | None, desired: str, quiet: bool = False
    ) -> bool:
        """See ``KeyStore.compare_and_swap``; watchers are woken even if ``quiet``."""
        if not desired:
            raise ValueError(f"key {key!r}: an empty text means a void key; use erase")
        put = {"key": self._key(key), "value": _encode(desired), "lease": self._living_lease()}
        return self._transact(key, expected, {"requestPut": put})

    def erase(self, key: str, expected: str) -> bool:
        """See ``KeyStore.erase``."""
        return self._transact(key, expected, {"requestDeleteRange": {"key": self._key(key)}})

    def watch(self, key: str, on_change: Callable[[], None]) -> None:
        """See ``KeyStore.watch``."""
        connection = self._connection()
        try:
            wanted = {"create_request": {"key": self._key(key)}}
            connection.request("POST", "/v3/watch", _json(wanted), self._headers)
            # The response takes the socket over; it is kept here for ``close``.
            sock = connection.sock
            response = connection.getresponse()
            # The watch holds only once etcd has confirmed it; a change before that would be missed.
            if response.status != 200 or b'"created":true' not in response.readline():
                raise StoreLost(f"etcd at {self._endpoint} refused a watch")
            sock.settimeout(None)  # a watch may be silent for any time
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._gone(error) from None
        connection.sock = sock
        self._watching.append(connection)
        threading.Thread(
            target=self._watch, args=(response, on_change), name=f"watch {key}", daemon=True
        ).start()

    def close(self) -> None:
        """See ``KeyStore.close``."""
        self._is_closed = True
        for connection in self._watching:
            with contextlib.suppress(OSError):
                # Not ``close``: only a shutdown wakes the thread that reads the watch.
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._watching.clear()
        self._connections = threading.local()

    def _watch(self, response: http.client.HTTPResponse, on_change: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while response.readline():
                if self._is_closed:
                    break
                on_change()
        if not self._is_closed:
            # The watch ends with etcd or with the connection: the election has to look, and to
            # connect again.
            self._is_lost = True
            on_change()

    def _transact(self, key: str, expected: str | None, request: Mapping[str, Any]) -> bool:
        name = self._key(key)
        if expected is None:
            # Revision 0 means that the key does not exist.
            compare = {"key": name, "target": "CREATE", "create_revision": "0"}
        else:
            compare = {"key": name, "target": "VALUE", "value": _encode(expected)}
        answer = self._call("kv/txn", {"compare": [compare], "success": [request]})
        return bool(answer.get("succeeded", False))

    def _living_lease(self) -> str:
        with self._lease_lock:
            # The time of the request, not of the answer: etcd counts the lease from a later moment.
            now = time.monotonic()
            if self._lease is not None and now - self._kept_alive > self._lease_s / 4:
                answer = self._call("lease/keepalive", {"ID": self._lease})
                # etcd has forgotten the lease, for example because it came back without its data.
                if int(answer.get("result", {}).get("TTL", 0)) <= 0:
                    self._lease = None
                self._kept_alive = now
            if self._lease is None:
                self._lease = str(self._call("lease/grant", {"TTL": self._lease_s})["ID"])
                self._kept_alive = now
            return self._lease

    def _call(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self._is_lost or self._is_closed:
            raise StoreLost(f"the connection to etcd at {self._endpoint} has ended")
        connection: http.client.HTTPConnection | None = getattr(self._connections, "it", None)
        if connection is None:
            connection = self._connections.it = self._connection()
        try:
            connection.request("POST", f"/v3/{method}", _json(body), self._headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A swap may have happened although its answer is lost. So the connection is given up,
            # and the caller reads again through a new one.
            self._is_lost = True
            raise self._gone(error) from None
        if response.status != 200:
            # etcd has no leader or no room: the same as lost.
            self._is_lost = True
            raise StoreLost(f"etcd at {self._endpoint} answers {method}: {answer.get('error')}")
        return dict(answer)

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            host, port, timeout=self._timeout_s, context=self._context
        )

    def _key(self, key: str) -> str:
        return _encode(self._prefix + key)

    def _gone(self, error: Exception) -> StoreLost:
        return StoreLost(f"no etcd at {self._endpoint}: {str(error) or type(error).__name__}")


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decode(text: str) -> str:
    return base64.b64decode(text).decode()
