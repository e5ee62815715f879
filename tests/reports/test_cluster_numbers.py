"""Numbers of criteria against examples worked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sample_runs import write_run

from harness.results.records import GrantRecord, JobRecord, OutageRecord
from reports.claims.ledger import Criterion
from reports.claims.measures import samples
from reports.measures.cluster_numbers import CLUSTER_NUMBERS, Levels, _at, _levels
from reports.runs.selection import ReportRun, select
from reports.site.build import by_study


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> ReportRun:
    root = tmp_path_factory.mktemp("runs")
    write_run(root, scheduler="fifo")
    return select([root])[0]


def a_run(stored: ReportRun, jobs=(), grants=(), outages=()) -> ReportRun:
    run = replace(stored)
    run.__dict__.update(jobs=list(jobs), grants=list(grants), outages=list(outages))
    return run


def a_job(number, arrival_s, start_s, finish_s, slots=1, state="finished", deadline_s=None):
    return JobRecord(
        job_id=str(number), workload="w", owner="", arrival_s=arrival_s, requested_slots=slots,
        global_batch=8, work_samples=1.0, deadline_s=deadline_s, deadline_kind="hard", state=state,
        first_start_s=start_s, finish_s=finish_s, samples_done=1.0, attained_slot_s=1.0,
        executed_s=0.0 if start_s is None else finish_s - start_s, num_rescales=0,
        num_preemptions=0, alone_s=100.0, fastest_alone_s=50.0,
    )  # fmt: skip


def grant(number, start_s, end_s, slots, speedup=1.0):
    return GrantRecord(str(number), start_s, end_s, slots, 8, speedup)


def test_load_waiting_and_calm(stored: ReportRun) -> None:
    """Four slots; from 0 to 100 one of them held, to 200 all, and a job waits from 100 to 150."""
    jobs = [
        a_job(0, 0.0, 0.0, 200.0),
        a_job(1, 100.0, 100.0, 150.0, 3),
        a_job(2, 100.0, 150.0, 300.0, 3),
        a_job(3, 200.0, None, 200.0, 4, "refused"),
    ]
    grants = [
        grant(0, 0.0, 200.0, (0,)),
        grant(1, 100.0, 150.0, (1, 2, 3)),
        grant(2, 150.0, 300.0, (1, 2, 3)),
    ]
    run = a_run(stored, jobs, grants)
    assert run.num_slots == 4
    assert CLUSTER_NUMBERS["waiting_time_share"](run) == pytest.approx(50 / 200)
    assert CLUSTER_NUMBERS["under_used_time_share"](run) == pytest.approx(100 / 200)
    # Requests fit until 100 (1 of 4 held) and from 150 to 200 (4 of 4).
    held = (100 * 1 + 50 * 4) / (150 * 4)
    assert CLUSTER_NUMBERS["slots_held_in_calm_share"](run) == pytest.approx(held)
    early = (100 * 1 + 50 * 2 + 50 * 2) / (200 * 4)
    assert CLUSTER_NUMBERS["cluster_efficiency_until_last_arrival"](run) == pytest.approx(early)


def test_refusals_in_bursts(stored: ReportRun) -> None:
    """Nine hours with a job each, and one with ten, of which four are refused."""
    calm = [a_job(n, 3600.0 * n, 0.0, 1.0) for n in range(9)]
    burst = [
        a_job(10 + n, 9 * 3600.0, 0, 1, state="refused" if n < 4 else "finished") for n in range(10)
    ]
    run = a_run(stored, [*calm, *burst])
    assert CLUSTER_NUMBERS["refused_in_calm_share"](run) == 0.0
    assert CLUSTER_NUMBERS["refused_in_bursts_less_calm"](run) == pytest.approx(0.4)


def test_tight_deadlines(stored: ReportRun) -> None:
    jobs = [
        a_job(1, 10.0, 10.0, 60.0),
        a_job(2, 0.0, 0.0, 60.0, deadline_s=90.0),
        a_job(3, 0.0, 0.0, 60.0, deadline_s=110.0),
    ]
    assert CLUSTER_NUMBERS["tight_deadline_share"](a_run(stored, jobs)) == 0.5


def test_idle_intervals(stored: ReportRun) -> None:
    grants = [
        grant(0, 0.0, 10.0, (0, 1)),
        grant(1, 100.0, 110.0, (0,)),
        grant(2, 900.0, 910.0, (1,)),
    ]
    assert CLUSTER_NUMBERS["idle_below_4_min_share"](a_run(stored, (), grants)) == 0.5
    # Lengths of a power law with exponent -2, by its quantiles: density falls along a line.
    starts = np.cumsum(10.0 / np.linspace(1.0, 0.01, 2000))
    steps = [grant(n, at, at, (0,)) for n, at in enumerate(starts.tolist())]
    assert CLUSTER_NUMBERS["idle_length_log_correlation"](a_run(stored, (), steps)) < -0.99


def some_that_wait():
    """Ten jobs of rising size; the two smallest wait twice as long as they run, one of the next
    three does, the others not at all."""
    jobs = []
    for n in range(10):
        ran_s = 10.0 * (n + 1)
        wait_s = 2 * ran_s if n in (0, 1, 2) else 0.0
        jobs.append(a_job(n, 0.0, wait_s, wait_s + ran_s))
    return jobs


def test_waiting_by_size(stored: ReportRun) -> None:
    run = a_run(stored, some_that_wait())
    assert CLUSTER_NUMBERS["small_jobs_waiting_longer_than_running_share"](run) == 1.0
    assert CLUSTER_NUMBERS["small_jobs_waiting_ten_times_running_share"](run) == 0.0
    assert CLUSTER_NUMBERS["small_over_medium_waiting_share"](run) == pytest.approx(3.0)
    assert CLUSTER_NUMBERS["medium_over_large_waiting_share"](run) is None
    assert CLUSTER_NUMBERS["job_size_p90_over_p20"](run) == pytest.approx(91 / 28)


def test_serving_and_jobs_together_are_flatter(stored: ReportRun) -> None:
    jobs = [a_job(0, 0.0, 0.0, 100.0), a_job(1, 100.0, 100.0, 200.0)]
    outages = [OutageRecord(0, 0.0, 50.0), OutageRecord(1, 0.0, 50.0)]
    filled = a_run(stored, jobs, [grant(0, 50.0, 100.0, (0, 1))], outages)
    assert CLUSTER_NUMBERS["in_use_deviation_over_that_of_serving"](filled) == 0.0
    half = a_run(stored, jobs, [grant(0, 50.0, 100.0, (0,))], outages)
    assert CLUSTER_NUMBERS["in_use_deviation_over_that_of_serving"](half) == pytest.approx(0.5)
    assert CLUSTER_NUMBERS["in_use_over_that_of_serving"](filled) == pytest.approx(2.0)
    assert CLUSTER_NUMBERS["in_use_over_that_of_serving"](half) == pytest.approx(1.5)


def test_steps_are_found_at_their_left_end() -> None:
    levels: Levels = _levels([(0.0, 2.0, 1.0), (1.0, 3.0, 2.0)])
    assert _at(levels, np.array([-1.0, 0.0, 1.0, 2.5, 3.0])).tolist() == [0, 1, 3, 2, 0]


def test_a_ratio_beside_another(tmp_path: Path) -> None:
    """300 over 100 beside 200 over 100 is 1.5."""
    jct_s = {"fifo": 100.0, "uniform": 300.0, "edf": 200.0}
    for scheduler in jct_s:
        write_run(tmp_path, scheduler=scheduler)
    runs = [
        replace(run, stored=replace(run.stored, metrics={"jct_mean_s": jct_s[own]}))
        for run in select([tmp_path])
        for own in [run.stored.config["choices"]["scheduler"]]
    ]
    criterion = Criterion(
        study="demo", measure="ratio", metric="jct_mean_s", of={"scheduler": "uniform"},
        over={"scheduler": "fifo"}, holds_if={"above": 1.0},
        beside={"of": {"scheduler": "edf"}, "over": {"scheduler": "fifo"}},
    )  # fmt: skip
    (sample,) = samples(criterion, runs)
    assert sample.value == pytest.approx(1.5)
    assert len(set(sample.run_ids)) == 3


def test_a_run_counts_for_every_study_that_has_a_copy(tmp_path: Path) -> None:
    for study in ("hu_fig9", "hu_fig12"):
        write_run(tmp_path / study, scheduler="fifo", sweep="hu_fig9")
    (run,) = select([tmp_path])
    assert run.also_in == ("hu_fig12",)
    assert {study: len(own) for study, own in by_study([run]).items()} == {
        "hu_fig9": 1,
        "hu_fig12": 1,
    }
    assert len(select([tmp_path], "hu_fig12")) == 1
