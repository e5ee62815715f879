"""What is etcd's own: endpoints, users, certificates, leases. Skipped where it is not installed."""

import contextlib
import http.client
import json
import threading
from base64 import b64encode
from pathlib import Path

import pytest

from systems.elastic.election.etcd_keystore import (
    KEYS,
    PASSWORD_VARIABLE,
    USER_VARIABLE,
    EtcdKeyStore,
    endpoint_problems,
    no_etcd,
    open_etcd,
)
from systems.elastic.election.keystore import StoreLost
from tests.elastic.stores import WAIT_S, EtcdProcess, free_ports

WAY_OUT = "start etcd there"


@pytest.fixture
def etcd():
    """Starts servers, and ends them."""
    servers = []

    def start(*options):
        servers.append(EtcdProcess(*options))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def administer(server, method, body, token=""):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    headers = {"Authorization": token} if token else {}
    connection.request("POST", f"/v3/{method}", json.dumps(body), headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()


def nobody():
    return f"http://127.0.0.1:{free_ports(1)[0]}"


def test_the_first_endpoint_that_answers_is_used(etcd):
    server, missing = etcd(), nobody()
    store = open_etcd([missing, server.endpoint], "a/")
    assert store.compare_and_swap("key", None, "text")
    assert EtcdKeyStore(server.endpoint, "a/").get("key") == "text"
    assert EtcdKeyStore(server.endpoint, "b/").get("key") is None
    assert no_etcd([missing, server.endpoint]) is None
    store.close()


def test_where_none_answers_all_are_named():
    one, other = nobody(), nobody()
    problem = no_etcd([one, other])
    assert one in problem
    assert other in problem
    assert "refused" in problem
    assert WAY_OUT in problem


def test_endpoints_that_cannot_be_meant_are_refused_unasked():
    good = ["http://localhost:2379", "https://[::1]:2379/", "http://etcd"]
    bad = [
        "localhost:2379",
        "http://",
        "ftp://a:1",
        "http://a:b",
        "http://a:1/path",
        "",
        "http://[",
    ]
    assert endpoint_problems(good) == []
    assert len(endpoint_problems([*bad, *good])) == len(bad)
    assert "empty" in endpoint_problems([])[0]
    (problem,) = endpoint_problems(["http://me:secret@host:1"])
    assert "secret" not in problem
    assert USER_VARIABLE in problem


def test_a_user_comes_from_the_environment_and_needs_only_our_keys(etcd, monkeypatch):
    server = etcd()
    after = b64encode(KEYS.encode()[:-1] + bytes([KEYS.encode()[-1] + 1])).decode()
    ours = {"permType": "READWRITE", "key": b64encode(KEYS.encode()).decode(), "range_end": after}
    administer(server, "auth/role/add", {"name": "root"})
    administer(server, "auth/role/add", {"name": "ours"})
    administer(server, "auth/role/grant", {"name": "ours", "perm": ours})
    for user, role in (("root", "root"), ("trainer", "ours")):
        administer(server, "auth/user/add", {"name": user, "password": f"{user}'s"})
        administer(server, "auth/user/grant", {"user": user, "role": role})
    administer(server, "auth/enable", {})

    assert "user name is empty" in no_etcd([server.endpoint])
    monkeypatch.setenv(USER_VARIABLE, "trainer")
    monkeypatch.setenv(PASSWORD_VARIABLE, "guessed")
    problem = no_etcd([server.endpoint])
    assert "authentication failed" in problem
    assert "guessed" not in problem
    monkeypatch.setenv(PASSWORD_VARIABLE, "trainer's")
    assert no_etcd([server.endpoint]) is None
    store = open_etcd([server.endpoint], f"{KEYS}job/")
    woken = threading.Event()
    store.watch("key", woken.set)
    assert store.compare_and_swap("key", None, "a")
    assert woken.wait(WAIT_S)
    assert store.erase("key", "a")
    store.close()
    with pytest.raises(StoreLost, match="permission denied"):
        open_etcd([server.endpoint], "others'/")


def test_a_certificate_must_be_trusted(etcd, monkeypatch):
    server = etcd("https", "--auto-tls")
    assert "certificate verify failed" in no_etcd([server.endpoint])
    certificate = next(Path(server.folder).glob("fixtures/client/*cert*"))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    store = open_etcd([server.endpoint], "a/")
    woken = threading.Event()
    store.watch("key", woken.set)
    assert store.compare_and_swap("key", None, "a")
    assert woken.wait(WAIT_S)
    watching = [thread for thread in threading.enumerate() if thread.name == "watch key"]
    store.close()
    for thread in watching:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_a_lease_outlives_its_refreshes_only(etcd):
    server = etcd()
    writer, reader = server.open(), server.open()
    void = threading.Event()

    def look():
        with contextlib.suppress(StoreLost):
            if reader.get("key") is None:
                void.set()

    assert writer.compare_and_swap("key", None, "a")
    reader.watch("key", look)
    for count in range(30):
        # Waits are the only way to let more than a lease's time go by.
        assert not void.wait(0.1)
        assert writer.compare_and_swap("key", "a" if count == 0 else str(count - 1), str(count))
    assert void.wait(WAIT_S)
    assert writer.compare_and_swap("key", None, "b")
    writer.close()
    reader.close()
