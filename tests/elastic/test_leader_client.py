"""A worker's part in the membership, over a real store and a real line to a driver."""

import queue
import threading
import time

import pytest
from msgspec.structs import replace

from systems.elastic.election.tcp_keystore import TcpKeyStore
from systems.elastic.wire.coordination_log import stamped
from systems.elastic.wire.messages import (
    DRIVER_CHANNELS,
    LEADER_CHANNELS,
    TO_MEMBER,
    AdjustFailed,
    Deposed,
    FollowerBeat,
    Halt,
    LeaderBeat,
    LeaderGreeting,
    Leads,
    LeadsNot,
    MemberGreeting,
    Prepared,
    Recovering,
    Suspect,
    WhoLeads,
    Withdraw,
    WorkersLost,
)
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.worker.leader_client import LEADER_KEY, Handlers, LeaderClient, OfLeader
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.control_server import Admission, ControlServer
from systems.runtime.wire.protocol import JsonObject
from tests.elastic.stores import WAIT_S, TcpStoreProcess
from tests.patience import eventually

TOKEN = "secret"
GREETING = MemberGreeting(job_id="job", worker="w1", token=TOKEN, pid=1)
WITHDRAWAL = Withdraw(change_id=5, attempt=1, reason="late")
IGNORED = Handlers(*[lambda _: None] * 5)
LISTENS_S = 30.0
"""Between two looks at its leader, the thread that listens does nothing else."""


def founder(store_port, joining=False, members=("w1",), heartbeat_s=LISTENS_S, hang_s=100.0):
    """The order of a job's first worker, or of one that joins and never stands for election."""
    return ElasticOrder(
        job_id="job",
        worker="w1",
        joining=joining,
        members=members,
        generation=1,
        workload="none",
        options=JsonObject({}),
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
        heartbeat_s=heartbeat_s,
        hang_timeout_s=hang_s,
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
    admission = Admission(TOKEN, DRIVER_CHANNELS)
    server = ControlServer(
        "127.0.0.1", lambda job_id: admission, lambda _, m: told.append(m), lambda _: None
    )
    yield server, told
    server.close()


class Leader:
    """Another worker's end, to which the one under test is connected once it leads."""

    def __init__(self, worker):
        self.heard = []
        admission = Admission(TOKEN, LEADER_CHANNELS)
        self.server = ControlServer(
            "127.0.0.1", lambda job_id: admission, self._note, lambda _: None
        )
        host, port = self.server.address
        self.address = f"{host}:{port}/{worker}"

    def _note(self, connection, message):
        self.heard.append((connection, message))

    @property
    def kinds(self):
        return [type(message) for _, message in self.heard]

    def is_elected_after(self, store, other):
        assert store.compare_and_swap(LEADER_KEY, other, self.address)
        deadline = time.monotonic() + WAIT_S
        while not self.heard:
            assert time.monotonic() < deadline
            self.server.wait(0.05)
        connection, greeting = self.heard[0]
        assert isinstance(greeting, LeaderGreeting)
        return connection, greeting


@pytest.fixture
def leaders():
    leaders = [Leader("w7"), Leader("w8")]
    yield leaders
    for leader in leaders:
        leader.server.close()


@pytest.fixture
def failures(monkeypatch):
    """Exceptions that ended a thread; a worker whose thread fails ends with an error."""
    failures = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    return failures


def until_told(driver, kind):
    """The first message of this class that the driver was told."""
    server, told = driver
    deadline = time.monotonic() + WAIT_S
    while True:
        found = [message for message in told if isinstance(message, kind)]
        if found:
            return found[0]
        assert time.monotonic() < deadline, told
        server.wait(0.05)


def test_a_leader_that_has_left_is_asked_who_leads(store, driver, failures):
    """The question was on its way when the line was closed: no error of the worker's."""
    server, _ = driver
    client = ControlClient(*server.address, GREETING, TO_MEMBER, on_end=lambda: None)
    member = LeaderClient(founder(store.port), TOKEN, client, IGNORED)
    (listening,) = [t for t in threading.enumerate() if t.name == "membership"]
    until_told(driver, Leads)
    member.leave(hands_over=False)
    client.leave()
    client.inbox.put(WhoLeads())
    listening.join(LISTENS_S / 2)
    assert not listening.is_alive()
    assert failures == []
    client.close()


def test_a_leader_is_obeyed_until_another_is_greeted_and_no_longer(store, driver, leaders):
    """What came late from the one before would be unknown to the one that leads."""
    server, _ = driver
    old, new = leaders
    client = ControlClient(*server.address, GREETING, TO_MEMBER, on_end=lambda: None)
    halts = queue.SimpleQueue()
    ignored = [lambda _: None] * 2
    handlers = Handlers(*ignored, halts.put, *ignored)
    keys = TcpKeyStore("127.0.0.1", store.port)
    member = LeaderClient(founder(store.port, joining=True), TOKEN, client, handlers)
    connection, greeting = old.is_elected_after(keys, None)
    assert greeting.status.highest == 1
    old.server.send(connection, Halt(generation=5))
    assert halts.get(timeout=WAIT_S) == 5
    connection, greeting = new.is_elected_after(keys, old.address)
    assert greeting.status.highest == 5
    # As the thread would put it that reads the old line, held up for a moment.
    client.inbox.put(OfLeader(1, Halt(generation=6)))
    new.server.send(connection, Halt(generation=7))
    assert halts.get(timeout=WAIT_S) == 7
    # The end of the old line neither ends the new one nor its leader's time.
    client.inbox.put(OfLeader(1, None))
    new.server.send(connection, Halt(generation=8))
    assert halts.get(timeout=WAIT_S) == 8
    member.leave(hands_over=False)
    client.leave()
    client.close()


def test_a_beat_is_answered_with_one_to_the_leader_that_counts(store, driver, leaders):
    """None goes by the clock: it would take the interpreter from training once more."""
    old, new = leaders
    client = ControlClient(*driver[0].address, GREETING, TO_MEMBER, on_end=lambda: None)
    keys = TcpKeyStore("127.0.0.1", store.port)
    member = LeaderClient(founder(store.port, joining=True), TOKEN, client, IGNORED)

    def beats(leader, connection, number):
        for _ in range(number):
            leader.server.send(connection, stamped(LeaderBeat()))
        eventually(lambda: leader.server.wait(0.02) or leader.kinds.count(FollowerBeat) >= number)
        return leader.kinds.count(FollowerBeat)

    connection, _ = old.is_elected_after(keys, None)
    eventually(lambda: member._leader is not None)
    assert beats(old, connection, 3) == 3
    connection, _ = new.is_elected_after(keys, old.address)
    eventually(lambda: member._leader is not None)
    # As the thread would have it that reads the old line, held up for a moment.
    member._receive(1, stamped(LeaderBeat()))
    member.prepared("h", 1)
    eventually(lambda: new.server.wait(0.02) or Prepared in new.kinds)
    assert FollowerBeat not in new.kinds, "it would have come before"
    assert beats(new, connection, 2) == 2
    member.leave(hands_over=False)
    client.leave()
    client.close()


def test_a_silent_leader_is_accused_once(store, driver, leaders):
    client = ControlClient(*driver[0].address, GREETING, TO_MEMBER, on_end=lambda: None)
    order = founder(store.port, joining=True, heartbeat_s=0.02, hang_s=0.2)
    member = LeaderClient(order, TOKEN, client, IGNORED)
    leaders[0].is_elected_after(TcpKeyStore("127.0.0.1", store.port), None)
    suspect = until_told(driver, Suspect)
    assert suspect.worker == "w7"
    assert suspect.silent_s >= 0.2
    for _ in range(20):
        driver[0].wait(0.05)
    assert [type(message) for message in driver[1]].count(Suspect) == 1
    member.leave(hands_over=False)
    client.leave()
    client.close()


def test_a_leader_sends_itself_no_beats_and_does_not_take_itself_for_silent(store, driver):
    client = ControlClient(*driver[0].address, GREETING, TO_MEMBER, on_end=lambda: None)
    member = LeaderClient(founder(store.port, heartbeat_s=0.02, hang_s=0.2), TOKEN, client, IGNORED)
    until_told(driver, Leads)
    eventually(lambda: member._leader is not None)
    server, told = driver
    for _ in range(20):
        server.wait(0.05)
    assert Suspect not in {type(message) for message in told}
    assert member._log._num_messages < 5, "fifty beats would have been noted"
    member.leave(hands_over=False)
    client.leave()
    client.close()


def test_who_does_not_lead_says_so_when_it_is_asked(store, driver, leaders):
    """The driver then asks who does; what it had asked for is passed on to nobody."""
    client = ControlClient(*driver[0].address, GREETING, TO_MEMBER, on_end=lambda: None)
    member = LeaderClient(founder(store.port, joining=True), TOKEN, client, IGNORED)
    leader = leaders[0]
    leader.is_elected_after(TcpKeyStore("127.0.0.1", store.port), None)
    client.inbox.put(replace(WITHDRAWAL, term=1))
    until_told(driver, LeadsNot)
    member.prepared("h", 1)
    deadline = time.monotonic() + WAIT_S
    while Prepared not in leader.kinds:
        assert time.monotonic() < deadline, leader.kinds
        leader.server.wait(0.05)
    assert Withdraw not in leader.kinds
    member.leave(hands_over=False)
    client.leave()
    client.close()


def test_a_leader_hears_what_it_is_asked_in_its_own_term(store, driver):
    client = ControlClient(*driver[0].address, GREETING, TO_MEMBER, on_end=lambda: None)
    member = LeaderClient(founder(store.port), TOKEN, client, IGNORED)
    term = until_told(driver, Leads).term
    client.inbox.put(replace(WITHDRAWAL, term=term - 1))
    client.inbox.put(replace(WITHDRAWAL, attempt=2, term=term))
    assert until_told(driver, AdjustFailed).attempt == 2
    member.leave(hands_over=False)
    client.leave()
    client.close()


def test_a_leader_that_another_follows_ends_the_recovery_that_it_had_begun(store, driver, leaders):
    client = ControlClient(*driver[0].address, GREETING, TO_MEMBER, on_end=lambda: None)
    order = founder(store.port, members=("w1", "w2"))
    member = LeaderClient(order, TOKEN, client, IGNORED)
    until_told(driver, Leads)
    client.inbox.put(WorkersLost(workers=("w2",)))
    until_told(driver, Recovering)
    keys = TcpKeyStore("127.0.0.1", store.port)
    while not keys.compare_and_swap(LEADER_KEY, keys.get(LEADER_KEY), leaders[0].address):
        pass  # it has refreshed its key between the two
    until_told(driver, Deposed)
    member.leave(hands_over=False)
    client.leave()
    client.close()
