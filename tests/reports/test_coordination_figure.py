"""The figure of elections and messages, on facts worked out by hand."""

from __future__ import annotations

from pathlib import Path

import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import JobRecord, RunRecords
from harness.results.store import RunStore, StoredRun
from reports.figures import FIGURES
from reports.runs.selection import name


def write_told(root: Path, run_id: str, workers: int, election_ms: float) -> StoredRun:
    """A run of one job, whose messages took a hundred times as many microseconds."""
    like = write_run(root / "like", live=True)
    records = RunRecords()
    records.jobs.append(
        JobRecord("0", "toy", "", 0.0, workers, 8, 800.0, None, "none", "finished", 0.0, 9.0,
                  800.0, 9.0, 9.0, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {
        "num_slots": 8.0,
        "steps_executed": 10.0,
        "messages": 100.0,
        "message_bytes": 4000.0,
        "messages_timed": 90.0,
        "message_latency_mean_us": 100.0 * election_ms,
        "message_latency_median_us": 50.0 * election_ms,
        "message_latency_p95_us": 200.0 * election_ms,
        "election_mean_ms": election_ms,
        "election_slowest_worker_ms": election_ms,
        "leaders_at_founding_max": 1.0,
    }
    text = yaml.safe_dump(dict(like.config))
    with RunStore(root / "runs").create(run_id, dict(like.manifest), text) as writer:
        return writer.finish(records, metrics.compute(records))


def test_medians_by_the_number_of_workers(tmp_path: Path) -> None:
    runs = name(
        [
            write_told(tmp_path, f"run-{workers}-{trial}", workers, election_ms)
            for workers, times in ((2, (4.0, 5.0, 9.0)), (8, (7.0,)))
            for trial, election_ms in enumerate(times)
        ]
    )
    (drawing,) = FIGURES["coordination"].draw(runs)
    rows = [row[1:] for row in drawing.table.rows]
    assert rows == [
        ["3", "5.0", "250.0", "500.0", "1000.0"],
        ["1", "7.0", "350.0", "700.0", "1400.0"],
    ]
    assert "2 workers" in drawing.table.rows[0][0]


def test_it_says_that_nothing_elected_a_leader(tmp_path: Path) -> None:
    (missing,) = FIGURES["coordination"].draw(name([write_run(tmp_path / "own")]))
    assert "elected a leader" in missing.missing
