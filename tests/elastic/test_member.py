"""A worker's part in the membership, over a real store and a real line to a driver."""

import threading
import time

import pytest

from systems.elastic.member import Handlers, Member
from systems.elastic.order import ElasticOrder
from systems.runtime.control import ControlClient
from systems.runtime.control_server import ControlServer
from tests.elastic.stores import WAIT_S, TcpStoreProcess

TOKEN = "secret"
GREETING = {"kind": "greeting", "job_id": "job", "worker": "w1", "token": TOKEN}
LISTENS_S = 30.0
"""Between heartbeats, the thread that listens does nothing else."""


def founder(store_port):
    """The order of a job's only worker."""
    return ElasticOrder(
        job_id="job",
        worker="w1",
        joining=False,
        members=("w1",),
        generation=1,
        workload="none",
        options={},
        seed=0,
        global_batch=8,
        target_step=1,
        job_dir="",
        checkpoint=None,
        checkpoint_every=0,
        digest_every=0,
        step_floors_s={},
        device="cpu",
        device_type="cpu",
        collectives="gloo",
        num_threads=1,
        address="127.0.0.1",
        store_address="127.0.0.1",
        store_port=store_port,
        data_order="blocks",
        block_samples=8,
        transfer="background",
        recovery="exact",
        heartbeat_s=LISTENS_S,
        hang_timeout_s=100.0,
        leader_expiry_s=3.0,
        leader_refresh_s=1.0,
        switch_allowance_s=0.0,
        collective_timeout_s=60.0,
        recovery_timeout_s=300.0,
    )


@pytest.fixture
def store():
    store = TcpStoreProcess()
    yield store
    store.kill()


@pytest.fixture
def driver():
    """A driver's end, and what it was told."""
    told = []
    server = ControlServer(
        "127.0.0.1", lambda job_id: TOKEN, lambda _, m: told.append(m), lambda _: None
    )
    yield server, told
    server.close()


@pytest.fixture
def failures(monkeypatch):
    """Exceptions that ended a thread; a worker whose thread fails ends with an error."""
    failures = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    return failures


def test_a_leader_that_has_left_is_asked_who_leads(store, driver, failures):
    """The question was on its way when the line was closed: no error of the worker's."""
    server, told = driver
    client = ControlClient(*server.address, GREETING, on_end=lambda: None)
    ignored = Handlers(*[lambda _: None] * 5)
    member = Member(founder(store.port), TOKEN, client, ignored)
    (listening,) = [t for t in threading.enumerate() if t.name == "membership"]
    deadline = time.monotonic() + WAIT_S
    while "leader" not in [message["kind"] for message in told]:
        assert time.monotonic() < deadline, told
        server.wait(0.05)
    member.leave(hands_over=False)
    client.leave()
    client.inbox.put({"kind": "who_leads"})
    listening.join(LISTENS_S / 2)
    assert not listening.is_alive()
    assert failures == []
    client.close()
