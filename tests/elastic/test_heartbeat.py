"""Who is silent, and whose fault that is: on a clock of the tests' own."""

from hypothesis import given
from hypothesis import strategies as st

from systems.elastic.heartbeat import HeartbeatWatch

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


def test_one_who_is_forgotten_is_not_missed_until_heard_again():
    watch = watched("left")
    watch.forget("left")
    watch.forget("never seen")
    assert run(watch, 0.0, 2 * HANG_S) == {}
    watch.note("left", 2 * HANG_S)
    assert list(run(watch, 2 * HANG_S, 2 * HANG_S)) == ["left"]
