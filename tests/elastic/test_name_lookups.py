"""That a name server which does not answer holds nobody up."""

import contextlib
import socket
import threading
import time

import pytest

from systems.elastic.election.tcp_keystore import TcpKeyStore
from systems.runtime.wire import name_lookups
from systems.runtime.wire.name_lookups import is_plain, no_name_lookups
from tests.elastic.stores import WAIT_S, TcpStoreProcess

SHORTEST_WAIT_S = 1.0
"""The resolver waits no shorter for an answer."""


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3"])
def test_numbers_are_plain(address):
    assert is_plain(address)


@pytest.mark.parametrize("address", ["localhost", "host1", "", "127.0.0.1:80"])
def test_names_are_not(address):
    assert not is_plain(address)


def attempts():
    resolver = name_lookups._resolver()
    if resolver is None:
        pytest.skip("not glibc")
    return resolver[name_lookups._RETRY]


def test_only_this_thread_and_only_meanwhile_asks_nobody():
    before = attempts()
    assert before > 0
    with no_name_lookups("127.0.0.1"):
        began = time.monotonic()
        with contextlib.suppress(OSError):
            # An address for documentation: no hosts file has it.
            socket.getnameinfo(("::ffff:192.0.2.1", 80), 0)
        assert time.monotonic() - began < SHORTEST_WAIT_S
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(attempts()))
        thread.start()
        thread.join(WAIT_S)
        assert elsewhere == [before]
    assert attempts() == before


def test_a_name_is_looked_up_as_always():
    before = attempts()
    with no_name_lookups("host1"):
        assert attempts() == before


def test_connecting_to_a_store_waits_for_nobody_else():
    server = TcpStoreProcess()
    took_s = []
    try:
        for _ in range(300):
            began = time.monotonic()
            store = TcpKeyStore("127.0.0.1", server.port)
            store.get("key")
            took_s.append(time.monotonic() - began)
            store.close()
    finally:
        server.kill()
    # Without it, several of them take five seconds where answers are lost.
    assert sum(took_s) < 5
