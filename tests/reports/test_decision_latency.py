"""Decisions by live jobs, on runs whose numbers are known."""

from types import SimpleNamespace

import pytest

from reports.figures import FIGURES
from reports.figures.decision_latency import live_jobs
from reports.runs.selection import ReportRun


def replay(system, jct_s, p50_ms=0.5, calls_us=None, trial=0, **metrics):
    """A run of 100 jobs in 1,000 s, so that a tenth of the mean JCT is the mean of live jobs."""
    stored = SimpleNamespace(
        run_id=f"{system}-{jct_s}-{trial}",
        config={},
        facts={},
        left_out={} if calls_us else {"latencies": 7},
        rows=lambda name: {"latencies": calls_us}[name],
        manifest={"repetition": trial, "choices": {}, "trace": {}, "profile": {}},
        metrics={
            "jobs_finished": 100.0,
            "makespan_s": 1000.0,
            "jct_mean_s": jct_s,
            "decision_latency_p50_ms": p50_ms,
            "decision_latency_p99_ms": 2.0 * p50_ms,
            **metrics,
        },
    )
    return ReportRun(stored, "t", system, "simulated")


def test_live_jobs_are_the_jobs_time_over_the_time():
    """Two jobs one after the other, 10 s each, in 20 s: one is live on average."""
    run = replay("afs", 10.0, jobs_finished=2.0, makespan_s=20.0)
    assert live_jobs(run) == 1.0
    assert live_jobs(replay("afs", 10.0, makespan_s=0.0)) is None


def test_bins_have_the_runs_of_a_system_by_live_jobs():
    runs = [
        replay("afs", 20.0, 0.1, calls_us=[100, 200, 300]),
        replay("afs", 200.0, 0.2),
        replay("afs", 250.0, 0.4, trial=1),
        replay("edf", 200.0, 0.3),
        replay("edf", 10_000.0, 1.0),
    ]
    (drawing,) = FIGURES["decision_latency"].draw(runs)
    assert drawing.table is not None
    afs, edf = "afs (unchecked)", "edf (unchecked)"
    assert drawing.table.rows == [
        [f"{afs}, below 3", "1", "2.0", "0.100", "0.290", "0.200"],
        [f"{afs}, 10 to 30", "2", "22.5 (20.0 to 25.0)", "0.300 (0.200 to 0.400)", "",
         "0.600 (0.400 to 0.800)"],
        [f"{edf}, 10 to 30", "1", "20.0", "0.300", "", "0.600"],
        [f"{edf}, 1,000 to 3,000", "1", "1,000.0", "1.000", "", "2.000"],
    ]  # fmt: skip
    (axis,) = drawing.figure.axes
    assert axis.get_legend_handles_labels()[1] == [
        f"{afs}, p50", f"{afs}, p95", f"{afs}, p99", f"{edf}, p50", f"{edf}, p99",
    ]  # fmt: skip
    assert [x for line in axis.lines for x in line.get_xdata()][:3] == pytest.approx([2, 20, 25])


def test_live_runs_and_runs_without_jobs_that_finished_are_no_part_of_it():
    live = replay("afs", 20.0)
    live.stored.facts["steps_executed"] = 5.0
    (drawing,) = FIGURES["decision_latency"].draw([live, replay("afs", 20.0, jobs_finished=0.0)])
    assert drawing.missing == (
        "No simulated run of the selection has finished jobs and timed decisions."
    )
    assert not FIGURES["decision_latency"].tables
