"""Gandiva: turns by hand and equal to a plan built anew; moves and growth by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Suspend
from systems.schedulers.gandiva import Gandiva
from tests.examples import examples
from tests.replay.worlds import cluster, job, simulate
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.world import Recorder, periods, run


def test_two_jobs_take_turns_of_a_minute():
    """One slot; b waits for the round at 60 s."""
    records, _ = run([job("a", 0, 1, 150), job("b", 10, 1, 70)], Gandiva(), cluster(1, 1))
    assert periods(records, "a") == [(0, 60, 1), (120, 180, 1), (190, 220, 1)]
    assert periods(records, "b") == [(60, 120, 1), (180, 190, 1)]


def test_the_longest_waiting_goes_first_and_the_last_started_stays():
    """4 slots in turns of 10 s. At 10 s wide (4), which waits since 1 s, takes all. At 20 s small,
    back in the queue since 10 s, comes before wide; newer, since 2 s, before both."""
    jobs = [job("small", 0, 2, 100), job("wide", 1, 4, 200), job("newer", 2, 3, 60)]
    records, _ = run(jobs, Gandiva(quantum_s=10.0), cluster(1, 4))
    assert periods(records, "wide")[0] == (10, 20, 4)
    assert periods(records, "small")[:1] == [(0, 10, 2)]
    assert periods(records, "newer")[0] == (20, 30, 3)


def test_free_slots_are_used_between_rounds():
    jobs = [job("a", 0, 3, 300), job("b", 1, 2, 20), job("c", 2, 1, 5)]
    records, _ = run(jobs, Gandiva(quantum_s=100.0), cluster(1, 4))
    assert periods(records, "c") == [(2, 7, 1)]
    assert periods(records, "b")[0][0] == 100


def test_a_spread_job_moves_to_one_host():
    """Two hosts of two. c lies on both, since a and b have one each; when b ends there is no
    room for c on one host but by its own slot there."""
    jobs = [job("a", 0, 1, 30), job("b", 0, 1, 10), job("c", 0, 2, 100)]
    for migrate, hosts in ((True, 1), (False, 2)):
        recorder = Recorder(Spread(migrate))
        records = simulate(jobs, recorder, on=cluster(2, 2))
        last = [grant for grant in records.grants if grant.job_id == "c"][-1]
        assert len({slot // 2 for slot in last.slots}) == hosts
        assert (last.start_s == 10.0) is migrate


class Spread(Gandiva):
    """Gandiva in a world whose first decision put jobs apart."""

    def __init__(self, migrate):
        super().__init__(migrate=migrate)
        self.is_first = True

    def decide(self, view):
        decision = super().decide(view)
        if not self.is_first:
            return decision
        self.is_first = False
        apart = {"a": (0,), "b": (2,), "c": (1, 3)}
        return Decision({i: Grant(len(slots), slots=slots) for i, slots in apart.items()})


def test_jobs_grow_into_idle_slots_and_give_them_back():
    """After 30 s without waiting jobs a and b share their host; d, which needs 4, makes them
    shrink at once, and they grow 30 s later. fixed is not elastic."""
    jobs = [
        job("a", 0, 1, 500),
        job("b", 0, 1, 500, max_slots=2),
        job("fixed", 0, 1, 500, elastic=False),
        job("d", 50, 4, 40),
    ]
    records, _ = run(jobs, Gandiva(grow_after_s=30.0), cluster(1, 8))
    assert [p[1:] for p in periods(records, "a")[:3]] == [(30, 1), (50, 5), (80, 1)]
    assert [p[1:] for p in periods(records, "b")[:3]] == [(30, 1), (50, 2), (80, 1)]
    assert periods(records, "fixed") == [(0, 500, 1)]
    assert periods(records, "d") == [(50, 60, 4)]


@pytest.mark.parametrize(("grow_after_s", "min_slots"), [(None, 3), (1.0, 3), (None, 1)])
def test_who_has_lost_slots_stays_where_it_is(grow_after_s, min_slots):
    """a has 3 and lost one of them: it is not granted the other two anew on one host."""
    where = cluster(2, 4)

    class Apart(Gandiva):
        def decide(self, view):
            decision = super().decide(view)
            known = view.jobs.get("a")
            if known is None or known.grant is not None:
                return decision
            return Decision({"a": Grant(3, slots=(0, 1, 4))})

    jobs = [job("a", 0, 3, 60, min_slots=min_slots), job("b", 8, 1, 10)]
    chaos = ChaosEngine(where, seed=0, deaths=((0, 5),), shrinks=True)
    records, _ = run(jobs, Apart(grow_after_s=grow_after_s), where, chaos=chaos)
    assert {record.state for record in records.jobs} == {"finished"}
    assert [grant.slots for grant in records.grants if grant.job_id == "a"] == [(0, 1, 4), (1, 4)]


ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([1, 1, 2, 3, 4, 6]), st.integers(1, 30)),
    min_size=1,
    max_size=12,
)
"""Of jobs: arrival and duration on the requested slots in seconds, and these slots."""


class Compared:
    """The scheduler, checked against turns that are planned anew on every view."""

    def __init__(self):
        self.fast = Gandiva(quantum_s=5.0, migrate=False)
        self.needs, self.requires, self.wants_progress = self.fast.needs, self.fast.requires, False
        self.since: dict[str, float] = {}

    def decide(self, view) -> Decision:
        decision = self.fast.decide(view)
        jobs = [(one, one.spec.requested_slots) for one in view.jobs.values()]
        running = {one.job_id for one, _ in jobs if one.grant is not None}
        waits = len(running) < len(jobs)
        is_round = view.time_s % 5.0 == 0.0

        def rank(one):
            if one.job_id not in running:
                return (1, self.since.get(one.job_id, one.spec.arrival_s), *one.spec.order)
            return (2 if is_round and waits else 0, -self.since[one.job_id], *one.spec.order)

        free, changes = view.num_usable, {}
        for one, slots in sorted(jobs, key=lambda pair: rank(pair[0])):
            fits = slots <= free
            free -= slots if fits else 0
            if fits and one.job_id not in running:
                changes[one.job_id] = Grant(slots)
            if not fits and one.job_id in running:
                changes[one.job_id] = Suspend()
        for job_id in changes:
            self.since[job_id] = view.time_s
        assert dict(decision.changes) == changes
        return decision


@settings(deadline=None, max_examples=examples(60))
@given(ROWS)
def test_equal_to_turns_planned_anew(rows):
    jobs = [job(f"{i:02d}", a, slots, slots * s) for i, (a, slots, s) in enumerate(rows)]
    records, _ = run(jobs, Compared(), cluster(2, 3))
    assert {record.state for record in records.jobs} == {"finished"}


@settings(deadline=None, max_examples=examples(100))
@given(ROWS)
def test_nobody_waits_longer_than_a_turn_of_everybody(rows):
    """No starvation: who has waited longest comes first in the next round, and each comes once."""
    jobs = [job(f"{i:02d}", a, slots, slots * s) for i, (a, slots, s) in enumerate(rows)]
    records, _ = run(jobs, Gandiva(quantum_s=5.0), cluster(2, 3))
    for one in jobs:
        times = [(one.arrival_s, one.arrival_s, 0), *periods(records, one.job_id)]
        for (_, before_s, _), (start_s, _, _) in pairwise(times):
            assert start_s - before_s <= 5.0 * (len(jobs) + 1), (one.job_id, before_s, start_s)


@pytest.mark.parametrize("seed", range(12))
def test_growth_and_moves_survive_delays_failures_and_outages(seed):
    jobs = [
        job(f"{i:02d}", 9.0 * i, 1 + i * seed % 3, 60.0 + 7 * (i * seed % 11), max_slots=4)
        for i in range(12)
    ]
    where = cluster(3, 3)
    outages = tuple((slot, 20 + 9 * slot, 45 + 9 * slot) for slot in range(0, 9, 2))
    chaos = ChaosEngine(where, seed=seed, max_delay_s=3, failure_share=0.2, outages=outages)
    records, recorder = run(jobs, Gandiva(10.0, grow_after_s=2.0), where, chaos=chaos)
    assert {record.state for record in records.jobs} == {"finished"}
    grown = [
        grant
        for view, decision in zip(recorder.views, recorder.decisions, strict=True)
        for job_id, grant in decision.changes.items()
        if isinstance(grant, Grant) and grant.num_slots > view.jobs[job_id].spec.requested_slots
    ]
    assert grown, "the test must see growth"


def test_options_must_mean_something():
    with pytest.raises(ValueError, match=r"grow_after_s is 0"):
        Gandiva(grow_after_s=0.0)
    with pytest.raises(ValueError, match=r"quantum_s is -1"):
        Gandiva(quantum_s=-1.0)
