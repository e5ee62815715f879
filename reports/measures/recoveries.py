"""Faults in stored runs, and how long it took until training continued."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from harness.contracts.marks import WorkerPhase
from harness.results.records import FaultRecord, StepRecord
from reports.measures.rescales import system_names
from reports.runs.selection import ReportRun

STEPS_BEFORE = 10
HANG_S = 20.0
"""Seconds without a committed step after a fault from which a job counts as hanging. The longest
recovery, a restart after a detected hang, takes a few seconds at these sizes."""
UNMARKED = WorkerPhase.START.name.lower()
RANDOM = "any"


@dataclass(frozen=True)
class Recovery:
    """One fault and its recovery."""

    run_id: str
    system: str
    workload: str
    fault: FaultRecord
    recovery_s: float | None
    """Seconds from the signal to the end of the next step committed without the worker, minus a
    usual step; None if no step came after the signal, or too few before it."""
    next_s: float | None
    """Seconds as above, but with the usual step included; None if no step came."""

    @property
    def phase(self) -> str:
        """Activity of the worker when it died, by its phase marker; without a marker, that of its
        job."""
        return self.fault.phase if self.fault.struck_in == UNMARKED else self.fault.struck_in

    @property
    def is_hang(self) -> bool:
        """Return whether no step was committed within ``HANG_S`` of the fault."""
        return self.next_s is None or self.next_s > HANG_S


def recoveries(runs: Iterable[ReportRun]) -> list[Recovery]:
    """Return every fault of these runs, each of which trains one job.

    A fault is left out if another fault followed before training continued. It only prepares a
    fault during recovery, so its own recovery cannot be measured.
    """
    chosen = [run for run in runs if run.stored.table_bytes("faults")]
    names = system_names(chosen)
    found = []
    for run in chosen:
        steps = run.stored.rows("steps")
        workload = run.jobs[0].workload
        faults = run.stored.rows("faults")
        for fault, later in zip(faults, [*faults[1:], None], strict=True):
            next_s = next_step_s(steps, fault)
            if later is not None and (next_s is None or later.at_s < fault.at_s + next_s):
                continue
            name, after_s = names[run.run_id], recovery_s(steps, fault)
            found.append(Recovery(run.run_id, name, workload, fault, after_s, next_s))
    return found


def recovery_s(steps: Sequence[StepRecord], fault: FaultRecord) -> float | None:
    """Return the seconds beyond a usual step until the next step is committed without the worker.

    The result is None if there is no such step, or too few steps before the fault.
    """
    recent = _before(steps, fault)[-STEPS_BEFORE - 1 :]
    next_s = next_step_s(steps, fault)
    if len(recent) < 3 or next_s is None:
        return None
    period_s = median(later.started_s - earlier.started_s for earlier, later in pairwise(recent))
    return max(0.0, next_s - period_s)


def next_step_s(steps: Sequence[StepRecord], fault: FaultRecord) -> float | None:
    """Return the seconds until the next step is committed without the worker; None if none is.

    That step is the first with fewer workers, or else the first that began after the signal. A step
    in progress at the signal may still have included the worker's gradients.
    """
    before = _before(steps, fault)
    num_workers = before[-1].num_workers if before else 0
    for step in steps[len(before) :]:
        if step.num_workers < num_workers or step.started_s > fault.at_s:
            return step.started_s + step.duration_s - fault.at_s
    return None


def _before(steps: Sequence[StepRecord], fault: FaultRecord) -> list[StepRecord]:
    return [step for step in steps if step.started_s + step.duration_s <= fault.at_s]
