"""Workers that die while their job goes on: what the books, the views and the records say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant
from harness.contracts.event import EventKind
from harness.contracts.job_state import JobState
from systems.schedulers.fifo import Fifo
from tests.examples import examples
from tests.replay.test_replay_invariants import erratic
from tests.replay.worlds import Driver, cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.world import periods, run

WHERE = cluster(1, 4)


def test_the_job_runs_on_with_the_smaller_grant_and_the_slot_is_free():
    jobs = [job("a", 0.0, 3, 30.0), job("b", 1.0, 2, 4.0)]
    chaos = ChaosEngine(WHERE, 0, deaths=((1, 4),), shrinks=True)
    records, recorder = run(jobs, Fifo(), WHERE, chaos=chaos)
    assert periods(records, "a") == [(0.0, 4.0, 3), (4.0, 13.0, 2)]
    assert periods(records, "b") == [(4.0, 6.0, 2)]  # the freed slot is what it waited for
    assert [grant.slots for grant in records.grants if grant.job_id == "a"] == [(0, 1, 2), (0, 2)]
    view = next(v for v in recorder.views if v.news[0].kind is EventKind.GRANT_SHRUNK)
    seen = view.jobs["a"]
    assert (seen.state, seen.slots, seen.grant) == (
        JobState.RUNNING,
        (0, 2),
        Grant(2, None, global_batch=8),
    )
    assert (seen.samples_done, seen.samples_per_s) == (12.0, 2.0)
    assert (view.num_granted, view.num_free) == (2, 2)
    assert records.facts["workers_lost"] == 1.0
    assert {record.state for record in records.jobs} == {"finished"}


def test_a_change_in_flight_has_failed_before_the_grant_shrinks():
    def rule(view):
        if view.time_s == 0.0:
            return Decision({"a": Grant(2)}, wake_s=5.0)
        if view.time_s == 5.0:
            return Decision({"a": Grant(4)})
        return Decision()

    chaos = Slow(WHERE, 0, deaths=((0, 6),), shrinks=True)
    records, recorder = run([job("a", 0.0, 2, 30.0)], Driver(rule), WHERE, chaos=chaos)
    assert [(change.kind, change.outcome) for change in records.changes] == [
        ("start", "done"),
        ("rescale", "failed"),
    ]
    kinds = [event.kind for view in recorder.views for event in view.news if event.time_s == 6.0]
    assert kinds == [EventKind.CHANGE_FAILED, EventKind.GRANT_SHRUNK]
    assert recorder.views[-2].jobs["a"].grant == Grant(1, None, global_batch=8)
    assert recorder.views[-2].num_free == 3


def test_workers_removed_as_stragglers_are_not_counted_with_the_dead():
    chaos = Removes(WHERE, 0, deaths=((1, 4), (0, 6)), shrinks=True)
    records, _ = run([job("a", 0.0, 4, 30.0)], Fifo(), WHERE, chaos=chaos)
    assert records.facts["stragglers_removed"] == 1.0
    assert records.facts["workers_lost"] == 1.0


class Removes(ChaosEngine):
    """The first slot to be lost is that of a straggler."""

    def _death(self, slot, extra):
        events = super()._death(slot, extra)
        return [replace(one, num_stragglers=int(slot == 1)) for one in events]


class Slow(ChaosEngine):
    """Starts at once; any other change takes 3 seconds."""

    def apply(self, changes):
        self._max_delay_s = 0
        if changes[0].previous_slots:
            self._rng.randint = lambda low, high: 3
        return super().apply(changes)


@settings(deadline=None, max_examples=examples(150))
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(1, 4), st.integers(1, 300)),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 2**16),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 150)), max_size=12),
    st.integers(0, 3),
)
def test_books_balance_whoever_dies(rows, seed, deaths, max_delay_s):
    jobs = [job(f"{i:02d}", at, slots, work) for i, (at, slots, work) in enumerate(rows)]
    where = cluster(2, 3)
    chaos = ChaosEngine(
        where, seed, deaths=tuple(deaths), shrinks=True, max_delay_s=max_delay_s, failure_share=0.1
    )
    records, recorder = run(jobs, erratic(seed), where, chaos=chaos)
    held: set[int] = set()
    edges = [(g.start_s, 1, slot) for g in records.grants for slot in g.slots]
    edges += [(g.end_s, 0, slot) for g in records.grants for slot in g.slots]
    for _, begins, slot in sorted(edges):
        assert (slot not in held) == bool(begins)
        held ^= {slot}
    assert not held
    for record in records.jobs:
        grants = [grant for grant in records.grants if grant.job_id == record.job_id]
        attained = sum(len(grant.slots) * (grant.end_s - grant.start_s) for grant in grants)
        assert record.state == "finished"
        assert record.samples_done == record.work_samples
        assert record.attained_slot_s == pytest.approx(attained)
    for view in recorder.views:
        granted = sum(one.grant.num_slots for one in view.jobs.values() if one.grant)
        assert view.num_granted == granted
        for one in view.jobs.values():
            assert bool(one.slots) == (one.state not in (JobState.PENDING, JobState.SUSPENDED))
    shrunk = [
        event
        for view in recorder.views
        for event in view.news
        if event.kind is EventKind.GRANT_SHRUNK
    ]
    assert records.facts.get("workers_lost", 0.0) <= len(shrunk)
