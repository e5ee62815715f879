"""Faults of stored runs, and how long it took until training went on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from harness.records import FaultRecord, StepRecord
from reports.rescales import system_names
from reports.selection import ReportRun

STEPS_BEFORE = 10


@dataclass(frozen=True)
class Recovery:
    """One fault, and what became of it."""

    run_id: str
    system: str
    workload: str
    fault: FaultRecord
    recovery_s: float | None
    """From the signal to the end of the next step that was committed without the worker, less
    a usual step; None: no step came after it, or too few before."""


def recoveries(runs: Iterable[ReportRun]) -> list[Recovery]:
    """Every fault of these runs, each of which trains one job."""
    chosen = [run for run in runs if run.stored.table_bytes("faults")]
    names = system_names(chosen)
    found = []
    for run in chosen:
        steps = run.stored.rows("steps")
        workload = run.jobs[0].workload
        found += [
            Recovery(run.run_id, names[run.run_id], workload, fault, recovery_s(steps, fault))
            for fault in run.stored.rows("faults")
        ]
    return found


def recovery_s(steps: Sequence[StepRecord], fault: FaultRecord) -> float | None:
    """Seconds beyond a usual step until the next step is committed without the worker.

    That step is the first with fewer workers, or else the first that began after the signal:
    one that was under way may still have ended with the worker's share.
    """
    before = [step for step in steps if step.started_s + step.duration_s <= fault.at_s]
    recent = before[-STEPS_BEFORE - 1 :]
    if len(recent) < 3:
        return None
    period_s = median(later.started_s - earlier.started_s for earlier, later in pairwise(recent))
    for step in steps[len(before) :]:
        if step.num_workers < recent[-1].num_workers or step.started_s > fault.at_s:
            return max(0.0, step.started_s + step.duration_s - fault.at_s - period_s)
    return None
