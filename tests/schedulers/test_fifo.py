"""Strict gang FIFO and its backfill, worked by hand."""

from __future__ import annotations

import pytest

from harness.contracts.decision import Grant
from systems.schedulers.fifo import Fifo
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.world import periods, run

# 4 slots. a takes 3 for 10 s; b wants 2 and must wait; c wants 1, which is free.
JOBS = [job("a", 0, 3, 30), job("b", 1, 2, 20), job("c", 2, 1, 5)]


def test_strict_order_lets_nobody_overtake():
    records, _ = run(JOBS, Fifo(), cluster(1, 4))
    assert periods(records, "a") == [(0, 10, 3)]
    assert periods(records, "b") == [(10, 20, 2)]
    assert periods(records, "c") == [(10, 15, 1)]


def test_backfill_starts_what_fits_and_does_not_delay_by_more_than_that():
    records, _ = run(JOBS, Fifo(backfill=True), cluster(1, 4))
    assert periods(records, "c") == [(2, 7, 1)]
    assert periods(records, "b") == [(10, 20, 2)]


def test_backfill_can_starve_a_wide_job():
    """2 slots; the stream of narrow jobs never leaves two slots free at once."""
    jobs = [job(f"n{i}", i * 5.0, 1, 10) for i in range(6)] + [job("wide", 6, 2, 2)]
    records, _ = run(jobs, Fifo(backfill=True), cluster(1, 2))
    assert periods(records, "wide")[0][0] == 35.0
    strict, _ = run(jobs, Fifo(), cluster(1, 2))
    assert periods(strict, "wide")[0][0] == 15.0


def test_simultaneous_arrivals_start_in_the_order_of_their_ids():
    _, recorder = run([job("b", 0, 1, 9), job("a", 0, 1, 9)], Fifo(), cluster(1, 2))
    assert list(recorder.decisions[0].changes) == ["a", "b"]


def test_a_job_that_lost_its_slots_queues_again_by_arrival():
    """One host of 2; slot 0 fails from 4 s to 6 s: a is first again, before b and c."""
    where = cluster(1, 2)
    chaos = ChaosEngine(where, 0, outages=((0, 4, 6),))
    jobs = [job("a", 0, 2, 20), job("b", 1, 1, 5), job("c", 2, 2, 10)]
    records, recorder = run(jobs, Fifo(), where, chaos=chaos)
    assert periods(records, "a") == [(0, 4, 2), (6, 12, 2)]
    assert periods(records, "b")[0][0] == 12
    at_4 = next(d for v, d in zip(recorder.views, recorder.decisions, strict=True) if v.time_s == 4)
    assert at_4.changes == {}  # b would fit into the slot that is left, but a is first


def test_an_elastic_job_gets_its_request_within_its_own_range():
    jobs = [
        job("low", 0, 1, 10, min_slots=2, max_slots=3),
        job("high", 0, 8, 10, min_slots=1, max_slots=2),
    ]
    _, recorder = run(jobs, Fifo(), cluster(1, 4))
    assert recorder.decisions[0].changes == {"high": Grant(2), "low": Grant(2)}


def test_impossible_jobs_are_refused_with_fact_and_way_out():
    jobs = [
        job("big", 0, 9, 10),
        job("odd", 0, 4, 10, elastic=False, max_slots=2),
        job("a", 1, 4, 40),
    ]
    records, _ = run(jobs, Fifo(), cluster(1, 4))
    reasons = {record.job_id: record.reason for record in records.jobs}
    assert "needs 9 slots" in reasons["big"]
    assert "cap its demand" in reasons["big"]
    assert "outside its own range [1, 2]" in reasons["odd"]
    assert periods(records, "a") == [(1, 11, 4)]


def test_static_shares_of_the_synthetic_workload_of_the_edl_paper():
    """4 hosts of 8; a job every 30 s, 16 jobs, none leaves: 4 slots each, all taken by the first
    eight, and the others wait (section 6.3)."""
    jobs = [job(f"{i:02d}", 30.0 * i, 1 + i % 8, 10**6) for i in range(16)]
    _, recorder = run(jobs, Fifo(slots_per_job=4), cluster(4, 8))
    last = recorder.views[15]
    assert last.time_s == 450.0
    sizes = {i: one.grant.num_slots for i, one in last.jobs.items() if one.grant}
    assert sizes == {f"{i:02d}": 4 for i in range(8)}


def test_a_static_share_stays_within_the_range_of_the_job():
    jobs = [
        job("least", 0, 1, 10, min_slots=6),
        job("most", 0, 1, 10, max_slots=2),
        job("rigid", 0, 3, 10, elastic=False),
    ]
    _, recorder = run(jobs, Fifo(slots_per_job=4), cluster(2, 8))
    sizes = {i: grant.num_slots for i, grant in recorder.decisions[0].changes.items()}
    assert sizes == {"least": 6, "most": 2, "rigid": 3}
    with pytest.raises(ValueError, match="at least 1"):
        Fifo(slots_per_job=0)
