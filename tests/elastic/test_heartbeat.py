"""Who is silent, and whose fault that is: on a clock of the tests' own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.elastic.wire.heartbeat import LOOKS, LeaderWatch
from systems.runtime.wire.heartbeat import HeartbeatWatch

TICK_S, HANG_S = 0.1, 1.0
LATE = 1e-6


def watched(*workers):
    watch = HeartbeatWatch(HANG_S)
    for worker in workers:
        watch.note(worker, 0.0)
    assert watch.silent(0.0, TICK_S) == {}
    return watch


def run(watch, start, seconds, beats=()):
    """Look every tick and hear some workers; the first accusation of each, by time."""
    accused = {}
    for tick in range(1, round(seconds / TICK_S) + 1):
        now = start + tick * TICK_S
        for worker in beats:
            watch.note(worker, now)
        for worker in watch.silent(now, TICK_S):
            accused.setdefault(worker, now)
    return accused


def test_a_silent_worker_is_found_in_time_and_the_others_are_not():
    accused = run(watched("hangs", "lives"), 0.0, 2 * HANG_S, beats=["lives"])
    assert list(accused) == ["hangs"]
    assert HANG_S - LATE <= accused["hangs"] <= HANG_S + TICK_S + LATE


@given(st.lists(st.floats(2.01 * TICK_S, 100.0), max_size=8))
def test_a_watcher_that_is_held_up_accuses_nobody(stops):
    watch, now = watched("lives"), 0.0
    for stop_s in stops:
        now += stop_s
        # What was sent meanwhile is read only after the look.
        assert watch.silent(now, TICK_S) == {}
        watch.note("lives", now)


@given(st.floats(0.0, 0.9 * HANG_S), st.floats(2.01 * TICK_S, 100.0))
def test_a_stop_of_the_watcher_delays_an_accusation_but_does_not_prevent_it(before_s, stop_s):
    watch = watched("hangs")
    assert run(watch, 0.0, before_s) == {}
    looked = round(before_s / TICK_S) * TICK_S
    now = looked + stop_s
    assert watch.silent(now, TICK_S) == {}
    accused = run(watch, now, 2 * HANG_S)
    forgiven_s = stop_s - TICK_S
    assert accused["hangs"] <= HANG_S + forgiven_s + TICK_S + LATE


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.0, 3.0)), max_size=40))
def test_nobody_is_accused_before_the_time_out(events):
    watch, now = HeartbeatWatch(HANG_S), 0.0
    heard = {}
    for worker, pause_s in events:
        now += pause_s
        for accused, silent_s in watch.silent(now, TICK_S).items():
            assert now - heard[accused] > HANG_S
            assert HANG_S < silent_s <= now - heard[accused] + LATE
        watch.note(worker, now)
        heard[worker] = now


@given(st.floats(0.0, 3.0 * HANG_S), st.floats(2.01 * TICK_S, 10.0))
def test_a_look_that_comes_late_takes_nobody_the_time_that_it_was_given(given_s, late_s):
    watch = watched("lives")
    watch.note("comes", late_s + given_s)
    watch.note("lives", late_s)
    assert watch.silent(late_s, TICK_S) == {}
    accused = run(watch, late_s, given_s + 2 * HANG_S, beats=["lives"])
    assert accused["comes"] >= late_s + given_s + HANG_S - LATE


def test_a_watch_that_has_rested_begins_anew():
    watch = watched("from before")
    watch.rest()
    watch.note("hangs", 0.0)
    assert list(watch.silent(1.5 * HANG_S, TICK_S)) == ["hangs"], "it was not held up"


def test_one_who_is_forgotten_is_not_missed_until_heard_again():
    watch = watched("left")
    watch.forget("left")
    watch.forget("never seen")
    assert run(watch, 0.0, 2 * HANG_S) == {}
    watch.note("left", 2 * HANG_S)
    assert list(run(watch, 2 * HANG_S, 2 * HANG_S)) == ["left"]


def looks(watch, start, seconds, beats_until):
    """Look as often as is asked for; the silences told of, by time."""
    told, now = {}, start
    while now < start + seconds:
        if now <= beats_until:
            watch.note(now)
        if (silent_s := watch.silent_s(now)) is not None:
            told[now] = silent_s
        wait_s = watch.until_look_s(now)
        assert 0.0 < wait_s <= HANG_S / LOOKS + LATE
        now += wait_s
    return told


@given(st.floats(0.0, 5.0))
def test_a_silent_leader_is_found_when_it_is_too_long(beats_until):
    watch = LeaderWatch(HANG_S, TICK_S)
    watch.note(0.0)
    told = looks(watch, 0.0, beats_until + 2 * HANG_S, beats_until)
    first = min(told)
    assert beats_until + HANG_S * (1 - 1 / LOOKS) - LATE <= first <= beats_until + HANG_S + LATE
    assert told[first] == pytest.approx(HANG_S)


@given(st.lists(st.floats(HANG_S / LOOKS + 1.01 * TICK_S, 100.0), max_size=8))
def test_a_worker_that_is_held_up_does_not_accuse_its_leader(stops):
    watch, now = LeaderWatch(HANG_S, TICK_S), 0.0
    watch.note(now)
    assert watch.silent_s(now) is None
    for stop_s in stops:
        now += stop_s
        assert watch.silent_s(now) is None, "what was sent meanwhile is read only after the look"
        watch.note(now)


def test_nobody_looks_before_it_is_time():
    watch = LeaderWatch(HANG_S, TICK_S)
    watch.note(0.0)
    assert watch.silent_s(0.0) is None
    assert watch.until_look_s(0.0) == HANG_S / LOOKS
    assert watch.silent_s(0.01) is None
    assert watch.until_look_s(0.01) == pytest.approx(HANG_S / LOOKS - 0.01)
