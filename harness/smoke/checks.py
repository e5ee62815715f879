"""Expected values of the short check, from committed records or from a run's configuration."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.results.store import StoredRun
from harness.results.tables import LATENCIES

REPLAY_S = 2.0
"""Longest recorded replay that is repeated, seconds."""
OF_THE_MACHINE = frozenset(
    {
        "decision_latency_p50_ms",
        "decision_latency_p99_ms",
        "decision_latency_max_ms",
        "peak_memory_bytes",
        "replay_events_per_s",
        "replay_wall_s",
    }
)
"""Metrics of a simulated run that depend on the machine and not on the replay."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check, printed as one line."""

    what: str
    problem: str = ""
    """Deviation from the expected value; empty: passed."""

    def __str__(self) -> str:
        return f"FAIL  {self.what}: {self.problem}" if self.problem else f"PASS  {self.what}"


def replays(reference: Iterable[StoredRun], longest_s: float = REPLAY_S) -> list[StoredRun]:
    """Return the fastest run of every simulated study of the reference, by study.

    Args:
        reference: committed runs.
        longest_s: studies whose every run took longer are left out.
    """
    found: dict[str, StoredRun] = {}
    for run in reference:
        if "replay_wall_s" not in run.facts or run.facts.get("steps_executed"):
            continue
        study = str(run.manifest.get("sweep"))
        if study not in found or _wall_s(run) < _wall_s(found[study]):
            found[study] = run
    return [run for _, run in sorted(found.items()) if _wall_s(run) <= longest_s]


def _wall_s(run: StoredRun) -> float:
    return run.facts["replay_wall_s"]


def same_replay(expected: StoredRun, found: StoredRun) -> Finding:
    """Check that a simulated run has the records and metrics of a committed one, to the last bit.

    The check ignores values that depend on the machine (wall-clock times, memory). It also ignores
    columns and metrics that were added after the committed run was made.
    """
    names = sorted({*expected.digests, *found.digests} - {LATENCIES, *expected.left_out})
    changed = [name for name in names if not _same_table(expected, found, name)]
    metrics = [
        name
        for name, value in sorted(expected.metrics.items())
        if name not in OF_THE_MACHINE and found.metrics.get(name) != value
    ]
    count = sum(name not in OF_THE_MACHINE for name in expected.metrics)
    study = expected.manifest.get("sweep")
    what = f"{study}: {expected.run_id}: {count} metrics and {len(names)} tables as committed"
    differing = [*(f"table {name}" for name in changed), *metrics]
    return Finding(what, f"differ in {', '.join(differing)}" if differing else "")


def _same_table(expected: StoredRun, found: StoredRun, name: str) -> bool:
    if expected.digests.get(name) == found.digests.get(name):
        return True
    if name not in expected.digests or name not in found.digests:
        return False
    rows, others = _rows(expected.path, name), _rows(found.path, name)
    return len(rows) == len(others) and all(
        row == {column: other.get(column) for column in row}
        for row, other in zip(rows, others, strict=True)
    )


def _rows(path: Path, name: str) -> list[dict[str, str]]:
    with gzip.open(path / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sound_training(run: StoredRun) -> list[Finding]:
    """Check a live run without fast-forward, by conditions that do not depend on the machine's
    speed."""
    metrics, facts = run.metrics, run.facts
    steps = sum(math.ceil(job.work_samples / job.global_batch) for job in run.records.jobs)
    backend = run.config["choices"]["backend"]
    found = [
        _equal(f"{backend}: every job finished", "jobs_finished", metrics, len(run.records.jobs)),
        _equal(f"{backend}: all {steps} steps were executed", "steps_executed", facts, steps),
        _equal(f"{backend}: no sample was missed", "samples_missed", facts, 0),
        _equal(f"{backend}: no sample was consumed twice", "samples_repeated", facts, 0),
    ]
    changed = metrics.get("rescales", 0.0) >= 1
    problem = "" if changed else "none of the script's changes was made while the job trained"
    found.append(Finding(f"{backend}: the job's slots changed while it trained", problem))
    if run.config["engine"].get("check_reference"):
        what = f"{backend}: the bits are those of stock training on fixed workers"
        found.append(_equal(what, "bitwise_equal", metrics, 1))
    return found


def _equal(what: str, name: str, numbers: Mapping[str, float], expected: float) -> Finding:
    value = numbers.get(name)
    return Finding(what, "" if value == expected else f"{name} is {value}, not {expected}")


def mirrored(run: StoredRun, in_mlflow: Mapping[str, Mapping[str, float]]) -> Finding:
    """Check that MLflow shows a run with its metrics.

    Args:
        run: a finished run.
        in_mlflow: metrics of the runs that MLflow has, by id.
    """
    what = f"MLflow has {run.run_id} with its {len(run.metrics)} metrics"
    if run.run_id not in in_mlflow:
        return Finding(what, "the run is not there")
    shown = in_mlflow[run.run_id]
    differing = sorted(name for name, value in run.metrics.items() if shown.get(name) != value)
    return Finding(what, f"differ in {', '.join(differing)}" if differing else "")
