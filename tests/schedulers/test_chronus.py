"""Chronus: its program by brute force over whole leases, and its promises in runs."""

from __future__ import annotations

from functools import cache
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.chronus import Chronus
from systems.schedulers.leases.lease_plan import LeaseJob, plan_leases
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.world import deadline_job, periods, run


def can_keep(jobs, num_slots):
    """Whether all of these can be run in time: every choice of who runs, lease by lease."""

    @cache
    def possible(left, lease):
        if not any(left):
            return True
        if any(n and n > jobs[i].usable - lease for i, n in enumerate(left)):
            return False
        able = [i for i, n in enumerate(left) if n]
        choices = chain.from_iterable(combinations(able, n) for n in range(len(able), 0, -1))
        return any(
            possible(tuple(n - (i in one) for i, n in enumerate(left)), lease + 1)
            for one in choices
            if sum(jobs[i].slots for i in one) <= num_slots
        )

    return possible(tuple(one.needed for one in jobs), 0)


def most_kept(jobs, num_slots):
    """The most deadlines that can be kept together."""
    for count in range(len(jobs), 0, -1):
        if any(can_keep(list(one), num_slots) for one in combinations(jobs, count)):
            return count
    return 0


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 3), st.integers(0, 4)),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
)
def test_as_many_deadlines_as_brute_force_keeps(rows, equal):
    """Exactly, where all demand the same slots; never fewer, where they do not."""
    jobs = [LeaseJob(2 if equal else slots, n, usable, 1.0) for slots, n, usable in rows]
    plan = plan_leases(jobs, 4)
    assert sum(jobs[place].slots for place in plan.now) <= 4
    assert set(plan.now) <= set(plan.kept)
    if equal:
        assert can_keep([jobs[place] for place in plan.kept], 4)
        assert len(plan.kept) == most_kept(jobs, 4)
    else:
        assert len(plan.kept) >= most_kept(jobs, 4)


def test_the_present_lease_is_used():
    """Three that fit together; then five that all need the same two leases of four slots."""
    jobs = [LeaseJob(1, 2, 9, 1.0), LeaseJob(2, 1, 9, 1.0), LeaseJob(1, 1, 9, 1.0)]
    assert plan_leases(jobs, 4).now == [0, 1, 2]
    jobs = [LeaseJob(1, 2, 2, 1.0)] * 5
    plan = plan_leases(jobs, 4)
    assert len(plan.kept) == 4
    assert plan.now == plan.kept
    assert plan_leases([], 4).kept == []


def test_a_promise_is_not_given_up_for_two_others():
    """One slot, leases of 10 s: a needs both of its leases. At 10 s b and c could be kept instead;
    they are not."""
    jobs = [
        deadline_job("a", 0, 1, 20, 20.0),
        job("n", 0, 1, 10),
        deadline_job("b", 5, 1, 10, 20.0),
        deadline_job("c", 5, 1, 10, 21.0),
    ]
    records, _ = run(jobs, Chronus(lease_s=10.0), cluster(1, 1))
    assert periods(records, "a") == [(0, 20, 1)]


def test_the_set_that_keeps_most_deadlines_runs():
    """4 slots. wide (due first) excludes the two others, so it is left out and runs last."""
    jobs = [
        deadline_job("wide", 0, 4, 40, 10.0),
        deadline_job("x", 0, 2, 20, 12.0),
        deadline_job("y", 0, 2, 20, 13.0),
    ]
    records, _ = run(jobs, Chronus(lease_s=10.0), cluster(1, 4))
    assert periods(records, "x") == [(0, 10, 2)]
    assert periods(records, "y") == [(0, 10, 2)]
    assert periods(records, "wide") == [(10, 20, 4)]


@pytest.mark.parametrize(("deadline_s", "num_met"), [(25.0, 2), (24.0, 1)])
def test_a_job_can_end_within_its_last_lease(deadline_s, num_met):
    """late takes a lease and half of one; after rival it is done at 25 s."""
    late = deadline_job("late", 0, 1, 15, deadline_s)
    records, _ = run(
        [late, deadline_job("rival", 0, 1, 10, 10.0)], Chronus(lease_s=10.0), cluster(1, 1)
    )
    assert sum(one.finish_s <= one.deadline_s for one in records.jobs) == num_met


def test_without_promise_the_shortest_first():
    jobs = [job("a", 0, 1, 30), job("b", 0, 1, 12), job("c", 0, 1, 11)]
    records, _ = run(jobs, Chronus(lease_s=10.0), cluster(1, 1))
    ends = {record.job_id: record.finish_s for record in records.jobs}
    assert ends == {"c": 11.0, "b": 23.0, "a": 53.0}


def test_a_margin_must_mean_something():
    with pytest.raises(ValueError, match=r"margin_s is -1\.0"):
        Chronus(margin_s=-1.0)
