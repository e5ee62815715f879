"""Shortest remaining time first: by hand, by brute force, and equal to a plan built anew."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Suspend
from systems.schedulers.srtf import Srtf
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.world import periods, run


def test_a_shorter_newcomer_interrupts_and_a_longer_one_waits():
    """One slot. At 4 s a has 6 left: b (5) goes first, c (8) last."""
    jobs = [job("a", 0, 1, 10), job("b", 4, 1, 5), job("c", 4, 1, 8)]
    records, _ = run(jobs, Srtf(), cluster(1, 1))
    assert periods(records, "a") == [(0, 4, 1), (9, 15, 1)]
    assert periods(records, "b") == [(4, 9, 1)]
    assert periods(records, "c") == [(15, 23, 1)]


def test_by_service_a_wide_job_counts_for_its_slots():
    """4 slots; wide needs 3 s on 4, narrow 5 s on 1: by time wide goes first, by service narrow."""
    jobs = [job("narrow", 0, 1, 5), job("wide", 0, 4, 12)]
    by_time, _ = run(jobs, Srtf(), cluster(1, 4))
    assert periods(by_time, "wide") == [(0, 3, 4)]
    by_service, _ = run(jobs, Srtf("service"), cluster(1, 4))
    assert periods(by_service, "narrow") == [(0, 5, 1)]
    with pytest.raises(ValueError, match="time or service"):
        Srtf("size")


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=5))
def test_the_least_mean_completion_time_on_one_slot(rows):
    """Against every priority order of the jobs, which on one slot contains an optimum."""
    records, _ = run([job(str(i), a, 1, w) for i, (a, w) in enumerate(rows)], Srtf(), cluster(1, 1))
    least = min(total_end(rows, order) for order in permutations(range(len(rows))))
    assert sum(record.finish_s for record in records.jobs) == pytest.approx(least)


def total_end(rows, order):
    """Sum of ends if each second goes to the first arrived unfinished job of the order."""
    left = [work for _, work in rows]
    second, total = 0, 0
    while any(left):
        second += 1
        for index in order:
            if left[index] and rows[index][0] < second:
                left[index] -= 1
                total += 0 if left[index] else second
                break
    return total


class Compared:
    """The scheduler, checked against a plan that is built anew on every view."""

    def __init__(self):
        self.fast = Srtf()
        self.needs, self.requires, self.wants_progress = Srtf.needs, Srtf.requires, False

    def decide(self, view) -> Decision:
        def rank(one):
            rate = one.throughput.samples_per_s(one.spec.requested_slots)
            return one.remaining_samples(view.time_s) / rate, one.spec.order

        decision, free, changes = self.fast.decide(view), view.num_usable, {}
        for one in sorted(view.jobs.values(), key=rank):
            fits = one.spec.requested_slots <= free
            free -= one.spec.requested_slots if fits else 0
            if fits and one.grant is None:
                changes[one.job_id] = Grant(one.spec.requested_slots)
            if not fits and one.grant is not None:
                changes[one.job_id] = Suspend()
        assert dict(decision.changes) == changes
        return decision


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from([1, 1, 2, 3, 4, 6]), st.integers(1, 30)),
        min_size=1,
        max_size=12,
    )
)
def test_equal_to_a_full_rebuild(rows):
    jobs = [job(f"{i:02d}", a, slots, slots * s) for i, (a, slots, s) in enumerate(rows)]
    records, _ = run(jobs, Compared(), cluster(2, 3))
    assert {record.state for record in records.jobs} == {"finished"}
