"""Elections over real stores: among threads, and among processes that are killed or stopped."""

import contextlib
import os
import queue
import signal
import threading
import time

import pytest

from systems.elastic.election.election import Election
from systems.elastic.election.keystore import StoreLost
from tests.elastic.stores import KINDS, NURSERY, WAIT_S

EXPIRY_S, REFRESH_S = 0.3, 0.1
NEVER_S = 1000.0
SLACK_S = 1.0
"""For the scheduling of a machine that runs other tests beside this one."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def server(kind):
    server = KINDS[kind]()
    yield server
    server.kill()


class Voter:
    """An election in this process, and what it told."""

    def __init__(self, make_store, key, name, expiry_s=EXPIRY_S, refresh_s=REFRESH_S, **options):
        self.me = f"host:{name}"
        self.told = queue.SimpleQueue()
        self.election = Election(
            make_store, key, self.me, expiry_s, refresh_s, self.told.put, **options
        )

    def next_leader(self):
        return self.told.get(timeout=WAIT_S)


@pytest.fixture
def key(request):
    """Of each test its own: they share a store."""
    return request.node.name


@pytest.fixture
def vote(key):
    voters = []

    def vote(make_store, *args, **kwargs):
        voters.append(Voter(make_store, key, *args, **kwargs))
        return voters[-1]

    yield vote
    for voter in voters:
        voter.election.close()


def settle(voters):
    """The leader that all have been told of, and the others."""
    (address,) = {voter.next_leader() for voter in voters}
    (leader,) = (voter for voter in voters if voter.me == address)
    return leader, [voter for voter in voters if voter is not leader]


def test_of_many_one_leads_and_all_know(server, vote):
    voters = [vote(server.open, index) for index in range(6)]
    leader, _ = settle(voters)
    assert {voter.election.leader for voter in voters} == {leader.me}


def test_resigning_hands_over_at_once(server, vote):
    # Nobody looks by itself within this test: only the notice can be the reason.
    voters = [vote(server.open, index, NEVER_S, NEVER_S / 3) for index in range(4)]
    leader, others = settle(voters)
    while others:
        began = time.monotonic()
        assert leader.election.resign(WAIT_S)
        leader, others = settle(others)
        assert time.monotonic() - began < SLACK_S
    assert leader.election.resign(WAIT_S)
    assert leader.election.leader is None
    assert leader.election.resign(WAIT_S)


def test_certain_death_is_taken_over_from_at_once_by_one(server, vote):
    voters = [vote(server.open, index, NEVER_S, NEVER_S / 3) for index in range(4)]
    leader, others = settle(voters)
    # Closing without resigning is what dying looks like from the store.
    leader.election.close()
    for voter in others:
        voter.election.presume_dead(leader.me)
    settle(others)
    assert [voter.told.empty() for voter in others] == [True, True, True]


def test_a_silent_leader_is_replaced(server, vote):
    first, second = vote(server.open, 0), None
    assert first.next_leader() == first.me
    second = vote(server.open, 1)
    assert second.next_leader() == first.me
    first.election.close()
    assert second.next_leader() == second.me


def test_who_only_follows_leads_once_it_stands(server, vote):
    follower = vote(server.open, "follower", is_candidate=False)
    leader = vote(server.open, "leader")
    assert follower.next_leader() == leader.next_leader() == leader.me
    assert leader.election.resign(WAIT_S)
    follower.election.stand()
    assert follower.next_leader() == follower.me


def test_a_callback_that_fails_does_not_end_the_election(server, vote, key, caplog):
    failed = threading.Event()

    def fail(address):
        failed.set()
        raise RuntimeError("callback")

    election = Election(server.open, key, "host:bad", EXPIRY_S, REFRESH_S, fail)
    assert failed.wait(WAIT_S)
    other = vote(server.open, 0)
    assert other.next_leader() == "host:bad"
    assert election.resign(WAIT_S)
    assert other.next_leader() == other.me
    election.close()
    assert "on_leader('host:bad') failed" in caplog.text


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.long
def test_the_leader_stays_when_its_store_is_replaced(kind, vote, signal_number):
    old, new = KINDS[kind](), KINDS[kind]()
    try:
        # The followers leave the leader this long to come to the new store.
        voters = [vote(old.open, index, 30.0, REFRESH_S) for index in range(3)]
        leader, others = settle(voters)
        os.kill(old.pid, signal_number)
        joiner = vote(old.open, "joiner", 30.0, REFRESH_S, is_candidate=False)
        for voter in [*others, leader, joiner]:
            voter.election.replace_store(new.open)
        assert joiner.next_leader() == leader.me
        assert leader.election.resign(WAIT_S)
        settle([*others])
    finally:
        old.kill()
        new.kill()


def test_a_leader_that_dies_with_the_store_is_replaced(kind, vote):
    old, new = KINDS[kind](), KINDS[kind]()
    try:
        voters = [vote(old.open, index) for index in range(3)]
        leader, others = settle(voters)
        old.kill()
        leader.election.close()
        for voter in others:
            voter.election.replace_store(new.open)
        settle(others)
    finally:
        old.kill()
        new.kill()


def test_who_resigns_does_not_wait_for_a_store_that_is_lost(kind, vote):
    server = KINDS[kind]()
    try:
        leader = vote(server.open, 0)
        assert leader.next_leader() == leader.me
    finally:
        server.kill()
    began = time.monotonic()
    assert not leader.election.resign(WAIT_S)  # it may still have the key
    assert not leader.election.resign(WAIT_S)
    assert time.monotonic() - began < SLACK_S


class LosesSwaps:
    """A store that loses its connection in every swap, after the swap was done."""

    def __init__(self, store):
        self.get, self.watch, self.close = store.get, store.watch, store.close
        self._swap = store.compare_and_swap

    def compare_and_swap(self, *arguments):
        self._swap(*arguments)
        raise StoreLost("the answer got lost")


def test_a_swap_whose_answer_got_lost_is_not_held_against_who_resigns(server, vote):
    opened = []

    def open_first_badly():
        opened.append(server.open())
        return LosesSwaps(opened[-1]) if len(opened) == 1 else opened[-1]

    voter = vote(open_first_badly, 0)
    assert voter.next_leader() == voter.me  # it read that it has the key
    began = time.monotonic()
    assert voter.election.resign(WAIT_S)
    assert time.monotonic() - began < SLACK_S


def test_after_an_outage_the_leader_leads_on(vote):
    server = KINDS["etcd"]()
    try:
        leader, (follower,) = settle([vote(server.open, 0, 30.0), vote(server.open, 1, 30.0)])
        server.stop()
        server.start()
        joiner = vote(server.open, "joiner", 30.0, is_candidate=False)
        assert joiner.next_leader() == leader.me
        assert leader.told.empty()
        assert follower.told.empty()
    finally:
        server.kill()


class Child:
    """A candidate in a process of its own."""

    def __init__(self, kind, port, key, name, expiry_s, refresh_s):
        self.me = f"host:{name}"
        self.pid, self.output = NURSERY.fork(
            "candidate", kind, port, key, name, expiry_s, refresh_s
        )
        self.told = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def next_told(self):
        """When, and what."""
        return self.told.get(timeout=WAIT_S)

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.reader.join(WAIT_S)

    def _read(self):
        for line in self.output:
            when, what = line.split()
            self.told.put((float(when), what))


def test_kill_and_stop_of_the_leading_process(kind, server, vote, key):
    expiry_s, refresh_s = 1.5, 0.5
    voters = [vote(server.open, "survivor", expiry_s, refresh_s, is_candidate=False)]
    children = [Child(kind, server.port, key, f"child{i}", expiry_s, refresh_s) for i in range(3)]
    try:
        (first,) = {child.next_told()[1] for child in children}
        assert voters[0].next_leader() == first
        by_address = {child.me: child for child in children}

        # A stopped leader is replaced, and steps down when it goes on.
        stopped = by_address[first]
        stopped.signal(signal.SIGSTOP)
        began = time.monotonic()
        second = voters[0].next_leader()
        assert second != first
        assert time.monotonic() - began < expiry_s + refresh_s + SLACK_S
        assert stopped.told.empty()
        stopped.signal(signal.SIGCONT)
        went_on = time.monotonic()
        when, leader = stopped.next_told()
        assert leader == second
        assert when - went_on < refresh_s + SLACK_S

        # So is a killed one.
        for child in children:
            if child is not stopped:
                assert child.next_told()[1] == second
        by_address[second].end()
        began = time.monotonic()
        third = voters[0].next_leader()
        assert third != second
        assert time.monotonic() - began < expiry_s + refresh_s + SLACK_S
        for child in children:
            if child.me != second:
                assert child.next_told()[1] == third
    finally:
        for child in children:
            child.end()
