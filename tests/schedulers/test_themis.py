"""Themis: an auction by hand, its winners by brute force, and fairness in a run."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.common.best_subset import best_subset
from systems.schedulers.themis import Themis
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.world import periods, run


@settings(deadline=None, max_examples=examples(200))
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=7),
    num_slots=st.integers(0, 12),
)
def test_the_best_subset_by_brute_force(rows, num_slots):
    gains, sizes = [row[0] for row in rows], [row[1] for row in rows]

    def total(values, places):
        return sum(values[place] for place in places)

    every = chain.from_iterable(combinations(range(len(rows)), n) for n in range(len(rows) + 1))
    most = max(total(gains, one) for one in every if total(sizes, one) <= num_slots)
    found = best_subset(gains, sizes, num_slots)
    assert found == sorted(set(found))
    assert total(sizes, found) <= num_slots
    assert total(gains, found) == most


def test_the_worst_treated_job_gets_the_next_lease():
    """One slot, leases of 10 s. At 10 s with 2 live jobs b has waited 9 s of (9 + 10) for its 10
    s, rho 1.9 / N; a has had its lease and needs 30 more of 40: rho 1 / N. At 20 s b is done."""
    jobs = [job("a", 0, 1, 40), job("b", 1, 1, 10)]
    records, _ = run(jobs, Themis(lease_s=10.0, fairness=1.0), cluster(1, 1))
    assert periods(records, "a") == [(0, 10, 1), (20, 50, 1)]
    assert periods(records, "b") == [(10, 20, 1)]


def test_of_the_bidders_those_win_whose_values_multiply_to_most():
    """4 slots, everybody bids. A lease of 10 s is worth log(1 + 10 / end) to a job that would end
    after so many seconds: wide (4 slots, 10 s) log 2, narrow (20 s) log 1.5 each. The two narrow
    ones, which fit together, 2 * log 1.5, beat wide."""
    jobs = [job("wide", 0, 4, 40), job("n1", 0, 2, 40), job("n2", 0, 2, 40)]
    records, _ = run(jobs, Themis(lease_s=10.0, fairness=0.0), cluster(1, 4))
    assert periods(records, "n1") == periods(records, "n2") == [(0, 20, 2)]
    records, _ = run(jobs[:2], Themis(lease_s=10.0, fairness=0.0), cluster(1, 4))
    assert periods(records, "wide") == [(0, 10, 4)]


def test_leases_are_kept_between_rounds_and_free_slots_are_used():
    jobs = [job("a", 0, 3, 300), job("b", 1, 4, 40), job("c", 2, 1, 5)]
    records, _ = run(jobs, Themis(lease_s=50.0, fairness=1.0), cluster(1, 4))
    assert periods(records, "c") == [(2, 7, 1)]
    assert periods(records, "b") == [(50, 60, 4)]


def test_fairer_than_first_come_first_served():
    """A long job and ten short ones on one slot: with leases nobody waits for the long one."""
    jobs = [job("long", 0, 1, 1000), *(job(f"s{i}", 1 + i, 1, 20) for i in range(10))]
    records, _ = run(jobs, Themis(lease_s=20.0), cluster(1, 1))
    ends = {record.job_id: record.finish_s for record in records.jobs}
    assert ends["long"] == max(ends.values())


def test_options_must_mean_something():
    with pytest.raises(ValueError, match=r"fairness is 1\.5"):
        Themis(fairness=1.5)
    with pytest.raises(ValueError, match=r"lease_s is 0"):
        Themis(lease_s=0.0)
