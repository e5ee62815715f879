"""Tiresias: worked by hand, and equal to a plan that is built anew every time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.event import Event, EventKind
from systems.schedulers.fifo import Fifo
from systems.schedulers.tiresias import Tiresias
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.naive_tiresias import NaiveTiresias
from tests.schedulers.world import periods, run


def test_groups_by_attained_service_worked_by_hand():
    """One slot; limits 10 and 40 slot-seconds.

    a runs alone to 10 s, drops to group 1 and goes on, since nobody waits. At 15 s b arrives
    in group 0 and takes the slot; at 25 s it has had 10 and drops to group 1, behind a, which
    entered there at 10 s. a has 15 and needs 25 more to leave group 1: at 50 s it is in group
    2, and b, which needs 5 more, runs to 55 s. a ends with its last 10 at 65 s.
    """
    jobs = [job("a", 0, 1, 50), job("b", 15, 1, 15)]
    records, recorder = run(jobs, Tiresias([10, 40]), cluster(1, 1))
    assert periods(records, "a") == [(0, 15, 1), (25, 50, 1), (55, 65, 1)]
    assert periods(records, "b") == [(15, 25, 1), (50, 55, 1)]
    assert [view.time_s for view in recorder.views] == [0, 10, 15, 25, 50, 55, 65]
    assert recorder.decisions[3].changes == {"b": Suspend(), "a": Grant(1)}
    assert recorder.decisions[0].wake_s == 10.0


def test_service_counts_slots_times_seconds():
    """A gang of 4 uses up 40 slot-seconds in 10 s; one of 1 would take 40 s."""
    _, recorder = run([job("wide", 0, 4, 400)], Tiresias([40]), cluster(1, 4))
    assert [view.time_s for view in recorder.views] == [0.0, 10.0, 100.0]


def test_what_does_not_fit_is_skipped_until_it_does():
    """4 slots: a (3) leaves 1; b (2) is skipped and c (1) runs; b starts when a ends."""
    jobs = [job("a", 0, 3, 30), job("b", 1, 2, 20), job("c", 2, 1, 100)]
    records, _ = run(jobs, Tiresias([1000]), cluster(1, 4))
    assert periods(records, "c") == [(2, 102, 1)]
    assert periods(records, "b") == [(10, 20, 2)]


def test_a_wide_newcomer_evicts_only_what_it_needs_and_later_entrants_first():
    """4 slots, all in group 1 by 5 s; the newcomer wants 2: the last entrants c and d go."""
    jobs = [job(name, i * 0.5, 1, 100) for i, name in enumerate("abcd")]
    jobs.append(job("wide", 20, 2, 10))
    _, recorder = run(jobs, Tiresias([3]), cluster(1, 4))
    view, decision = next(
        (v, d) for v, d in zip(recorder.views, recorder.decisions, strict=True) if v.time_s == 20
    )
    assert len(view.jobs) == 5
    assert decision.changes == {"c": Suspend(), "d": Suspend(), "wide": Grant(2)}


def test_promotion_after_a_multiple_of_the_executed_time():
    """One slot, limit 10, promotion after 2 times the executed time.

    a drops at 10 s and is pushed out by b at 12 s, having executed 12 s: due back at 36 s.
    b drops at 22 s but a entered group 1 first, so a runs from 22 s and is not promoted;
    c arrives at 30 s: a, with 20 s executed, is due at 70 s. c drops at 40 s; of a (since 10),
    b (since 22) and c (since 40) a goes on to its end at 60 s. b had executed 10 s until 22 s
    and is due at 42 s: it is promoted then, ahead of a, and runs its last 10 s to 52 s.
    """
    jobs = [job("a", 0, 1, 40), job("b", 12, 1, 20), job("c", 30, 1, 15)]
    records, _ = run(jobs, Tiresias([10], promote_after=2), cluster(1, 1))
    assert periods(records, "b") == [(12, 22, 1), (42, 52, 1)]
    assert periods(records, "a")[:3] == [(0, 12, 1), (22, 30, 1), (40, 42, 1)]


def test_a_job_larger_than_the_cluster_is_refused_and_holds_nobody_up():
    records, _ = run([job("huge", 0, 5, 10), job("a", 0, 1, 10)], Tiresias(), cluster(1, 4))
    states = {record.job_id: (record.state, record.reason) for record in records.jobs}
    assert states["huge"][0] == "refused"
    assert "5 slots" in states["huge"][1]
    assert states["a"][0] == "finished"


@pytest.mark.parametrize("limits", [[10, 10], [0, 5], [20, 10]])
def test_limits_must_ascend(limits):
    with pytest.raises(ValueError, match="ascend") as caught:
        Tiresias(limits, promote_after=-1)
    assert len(str(caught.value).splitlines()) == 2  # both problems at once


class Compared:
    """The fast scheduler, checked against the naive one on every view it gets."""

    needs = frozenset()
    requires = frozenset()
    wants_progress = False

    def __init__(self, limits, promote_after):
        self.fast = Tiresias(limits, promote_after)
        self.naive = NaiveTiresias(limits, promote_after)
        self.num_changes = 0

    def decide(self, view) -> Decision:
        fast, naive = self.fast.decide(view), self.naive.decide(view)
        assert dict(fast.changes) == dict(naive.changes), view
        woken_s = float("inf") if fast.wake_s is None else fast.wake_s
        assert woken_s <= max(naive.wake_s, view.time_s) + 2e-6  # never later than due
        self.num_changes += len(fast.changes)
        return fast


TRACES = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from([1, 1, 1, 2, 3, 4, 6]), st.integers(1, 40)),
    min_size=1,
    max_size=14,
)


def _jobs(rows):
    return [
        job(f"{i:02d}", at, slots, slots * seconds) for i, (at, slots, seconds) in enumerate(rows)
    ]


@settings(deadline=None, max_examples=examples(200))
@given(TRACES, st.sampled_from([None, 0.5, 3.0]), st.sampled_from([(7,), (5, 30), (1, 2, 60)]))
def test_equal_to_a_full_rebuild(rows, promote_after, limits):
    compared = Compared(limits, promote_after)
    records, _ = run(_jobs(rows), compared, cluster(2, 3))
    assert {record.state for record in records.jobs} == {"finished"}
    assert compared.num_changes >= len(rows)


@settings(deadline=None, max_examples=examples(200))
@given(
    TRACES,
    st.sampled_from([None, 2.0]),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.2]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40), st.integers(1, 30)), max_size=3),
    st.integers(0, 10**6),
)
def test_equal_to_a_full_rebuild_under_delays_failures_and_outages(
    rows, promote_after, max_delay_s, failure_share, outages, seed
):
    where = cluster(2, 3)
    chaos = ChaosEngine(
        where,
        seed,
        max_delay_s=max_delay_s,
        failure_share=failure_share,
        outages=tuple((slot, at, at + length) for slot, at, length in dict_by_slot(outages)),
    )
    records, _ = run(_jobs(rows), Compared((5, 30), promote_after), where, chaos=chaos)
    assert {record.state for record in records.jobs} == {"finished"}


def dict_by_slot(outages):
    """At most one outage for each slot, so that they do not overlap."""
    return list({slot: (slot, at, length) for slot, at, length in outages}.values())


class Counting(dict):
    """The job map of a view, with its lookups counted."""

    lookups = 0

    def get(self, key, default=None):
        self.lookups += 1
        return super().get(key, default)

    def __getitem__(self, key):
        self.lookups += 1
        return super().__getitem__(key)

    def __iter__(self):
        raise AssertionError("a decision went through all jobs")

    items = keys = values = __iter__


@pytest.mark.parametrize("build", [Fifo, Tiresias])
def test_a_decision_looks_at_the_news_and_not_at_the_queue(build):
    """2,000 jobs wait; the decision about one more looks up a handful of them."""
    jobs = [job(f"{i:05d}", 0, 1 + i % 3, 10**6) for i in range(2000)]
    _, recorder = run([*jobs[:5], job("late", 5.0, 1, 10)], build(), cluster(1, 4))
    late = next(view for view in recorder.views if view.time_s == 5.0)
    early = recorder.views[0]
    waiting = {one.job_id: replace(early.jobs["00004"], spec=one) for one in jobs}
    arrivals = [Event(0.0, EventKind.ARRIVAL, one.job_id) for one in jobs]
    scheduler = build()
    started = scheduler.decide(replace(early, jobs=waiting, news=arrivals)).changes
    assert len(started) <= 4
    granted = {i: replace(waiting[i], grant=started[i]) for i in started}
    now = Counting({**waiting, **granted, "late": late.jobs["late"]})
    num_granted = sum(grant.num_slots for grant in started.values())
    scheduler.decide(replace(late, jobs=now, num_granted=num_granted))
    assert 1 <= now.lookups < 10
