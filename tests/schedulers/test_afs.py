"""AFS: the comparison against what it stands for, whole decisions against a plain version."""

import functools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant
from systems.schedulers.afs import Afs, Share, preferred
from systems.schedulers.common.sizes import Levels
from tests.contracts.test_scheduler import PROFILE, WHERE, traces
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import periods, run

gains = st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3)


def curve(drops):
    """Throughputs on 0 to 4 slots: each slot adds a share of what the one before added."""
    rates, step = [0.0], 1.0
    for drop in [1.0, *drops]:
        step *= drop
        rates.append(rates[-1] + step)
    return tuple(rates)


def share(name, work, rates, level):
    counts = tuple(range(len(rates)))
    return Share((work / rates[1], 0.0, name), Levels(counts, rates), work, level)


@settings(deadline=None, max_examples=examples(300))
@given(gains, gains, st.floats(1, 100), st.floats(1, 100), st.integers(1, 3), st.integers(1, 3))
def test_a_slot_goes_where_the_sum_of_both_ends_is_less(a, b, work_a, work_b, at_a, at_b):
    """The two outcomes computed second by second: to the first and then to the other, or to the
    other for good."""
    one, other = share("a", work_a, curve(a), at_a), share("b", work_b, curve(b), at_b)
    first, second = sorted((one, other), key=lambda each: each.left_s)
    to_first = sum_of_ends(first, second, passes_on=True)
    to_second = sum_of_ends(first, second, passes_on=False)
    if to_first != pytest.approx(to_second, rel=1e-9):
        assert preferred(one, other) is (first if to_first < to_second else second)
        assert preferred(other, one) is preferred(one, other)


def sum_of_ends(first, second, passes_on):
    p1, more1 = first.levels.rates[first.level : first.level + 2]
    p2, more2 = second.levels.rates[second.level : second.level + 2]
    if not passes_on:
        return first.left_samples / p1 + second.left_samples / more2
    end = first.left_samples / more1
    return end + end + (second.left_samples - p2 * end) / more2


def test_linear_curves_worked_by_hand():
    """4 slots. At 1 s b has 16 left and a 36, so b gets the first slot. The second: b gains 1/1, a
    (1 - 0) / 1, so b, which ends first. The third: b gains 1/2, a still 1, so a. The fourth: b
    gains 1/2 and a 1/2, so b. At 19/3 s b ends."""
    jobs = [job("a", 0, 1, 40), job("b", 1, 1, 16)]
    records, _ = run(jobs, Afs(), cluster(1, 4))
    assert periods(records, "b") == [(1, pytest.approx(19 / 3), 3)]
    assert [count for *_, count in periods(records, "a")] == [4, 1, 4]
    assert records.jobs[-1].finish_s == pytest.approx(19 / 3 + (36 - 16 / 3) / 4)


def test_a_job_that_scales_badly_leaves_slots_to_a_longer_one_that_scales_well():
    """poor gains 5% by a second slot, so that the longer job gets all the others."""
    known = curve_profile({"poor": {1: 10.0, 2: 10.5}, "good": {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}})
    jobs = [job("poor", 0, 1, 50, workload="poor"), job("good", 0, 1, 60, workload="good")]
    records, _ = run(jobs, Afs(), cluster(1, 4), known=known)
    assert periods(records, "poor") == [(0, 5, 1)]
    assert periods(records, "good") == [(0, 5, 3), (5, 16.25, 4)]


def test_two_jobs_compared_with_the_best_of_all_splits():
    """Every split of 4 slots until the first ends, after which the other has all: never better than
    the best of these, as good in most cases, and never far away."""
    rng = random.Random(0)
    ratios = []
    for _ in range(200):
        a, b = ([rng.uniform(0.05, 1.0) for _ in range(3)] for _ in range(2))
        work_a, work_b = rng.randint(1, 40), rng.randint(1, 40)
        cells = {name: dict(enumerate(curve(d)[1:], 1)) for name, d in (("a", a), ("b", b))}
        jobs = [job("a", 0, 1, work_a, workload="a"), job("b", 0, 1, work_b, workload="b")]
        records, _ = run(jobs, Afs(), cluster(1, 4), known=curve_profile(cells))
        splits = [ends(curve(a), curve(b), work_a, work_b, slots, 4 - slots) for slots in range(5)]
        ratios.append(sum(record.finish_s for record in records.jobs) / min(splits))
    ratios.sort()
    assert ratios[0] > 1 - 1e-9
    assert ratios[len(ratios) // 2] == pytest.approx(1.0)
    assert ratios[-1] < 1.2


def ends(a, b, work_a, work_b, slots_a, slots_b):
    """Sum of both ends on a split that lasts until one ends."""
    end_a = work_a / a[slots_a] if slots_a else float("inf")
    end_b = work_b / b[slots_b] if slots_b else float("inf")
    if end_a <= end_b:
        return 2 * end_a + (work_b - b[slots_b] * end_a) / b[4]
    return 2 * end_b + (work_a - a[slots_a] * end_b) / a[4]


class Plain:
    """AFS as the comparison of all jobs with all others says it, built anew on every view."""

    def __init__(self):
        self.fast = Afs()
        self.needs, self.requires, self.wants_progress = Afs.needs, Afs.requires, False

    def decide(self, view) -> Decision:
        decision = self.fast.decide(view)
        counts = plain_counts(view)
        found = {i: one.grant.num_slots for i, one in view.jobs.items() if one.grant}
        for job_id, change in decision.changes.items():
            found[job_id] = change.num_slots if isinstance(change, Grant) else 0
        assert {i: n for i, n in found.items() if n} == counts
        return decision


def plain_counts(view):
    """Job by job and slot by slot, everything asked of the curve itself."""

    def rate(one, count):
        return one.throughput.samples_per_s(count)

    def sizes(one):
        if not one.spec.elastic:
            return [0, one.spec.requested_slots]
        most = min(view.cluster.num_slots, one.spec.max_slots or view.cluster.num_slots)
        kept = [0]
        for count in range(one.spec.min_slots, most + 1):
            if rate(one, count) > max(rate(one, other) for other in kept):
                kept.append(count)
        return kept

    def left_s(one):
        count = counts[one.job_id]
        return left[one.job_id] / rate(one, count) if count else float("inf")

    def next_size(one):
        return next((count for count in sizes(one) if count > counts[one.job_id]), None)

    def gain(one, then):
        step = next_size(one) - counts[one.job_id]
        before, after = rate(one, counts[one.job_id]), rate(one, next_size(one))
        return (after - before) / step / (after if then else before)

    def length(one):
        return left[one.job_id] / rate(one, sizes(one)[1]), one.spec.order

    def winner(one, other):
        if counts[one.job_id] == counts[other.job_id] == 0:
            return min(one, other, key=length)
        first, second = sorted((one, other), key=lambda each: (left_s(each), length(each)))
        return first if gain(first, False) >= gain(second, True) else second

    jobs = sorted(view.jobs.values(), key=lambda one: one.spec.order)
    left = {one.job_id: one.remaining_samples(view.time_s) for one in jobs}
    counts = dict.fromkeys(left, 0)
    while True:
        free = view.num_usable - sum(counts.values())
        able = [
            one for one in jobs if next_size(one) and next_size(one) - counts[one.job_id] <= free
        ]
        waiting = sorted((one for one in able if not counts[one.job_id]), key=length)
        able = [one for one in able if counts[one.job_id]] + waiting[:1]
        if not able:
            return {i: n for i, n in counts.items() if n}
        best = functools.reduce(winner, able)
        counts[best.job_id] = next_size(best)


@settings(deadline=None, max_examples=examples(60))
@given(jobs=traces())
def test_equal_to_a_plain_version(jobs):
    records, _ = run(jobs, Plain(), WHERE, known=PROFILE)
    assert {record.state for record in records.jobs} == {"finished"}
