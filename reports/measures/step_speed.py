"""Training speed of jobs that ran alone and kept their size, and the memory of their workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.results.records import StepRecord, SystemRecord
from reports.measures.rescales import system_names
from reports.runs.selection import ReportRun

WARM_UP_STEPS = 5
"""Number of steps left out at the beginning of a run."""


@dataclass(frozen=True)
class Speed:
    """Speed and memory of one run of one job."""

    run_id: str
    workload: str
    name: str
    """Short name of the system, with ", in turns" if logical workers take turns on the slots."""
    backend: str
    trial: tuple[int, int]
    logical_workers: int
    """Number of workers that the job asked for."""
    samples_per_s: float
    """Throughput of the median step."""
    per_slot: float
    memory_bytes: float | None
    """Largest resident memory minus that at the start of the run; None if not sampled in time."""


def speeds(runs: Sequence[ReportRun]) -> list[Speed]:
    """Return the speed of every live run that trained one job without a change of its size."""
    own = [run for run in runs if run.is_live and len(run.jobs) == 1]
    names = system_names(own)
    found = []
    for run in own:
        (job,) = run.jobs
        speed = samples_per_s(run)
        if speed is None:
            continue
        num_slots, logical = len(run.grants[0].slots), job.requested_slots
        named = names[run.run_id]
        if num_slots != logical:
            named += ", in turns"
        found.append(
            Speed(
                run.run_id,
                job.workload,
                named,
                run.backend,
                run.trial,
                logical,
                speed,
                speed / num_slots,
                workers_memory_bytes(run),
            )
        )
    return found


def samples_per_s(run: ReportRun) -> float | None:
    """Return the throughput of the median step, without the warm-up steps.

    The result is None if the job changed its slots or had too few steps.
    """
    steps: list[StepRecord] = run.stored.rows("steps")[WARM_UP_STEPS:]
    if len(steps) < WARM_UP_STEPS or len({tuple(grant.slots) for grant in run.grants}) != 1:
        return None
    return steps[0].global_batch / median(step.duration_s for step in steps)


def workers_memory_bytes(run: ReportRun) -> float | None:
    """Return the largest resident memory of a run's processes, minus that at its start.

    The first sample precedes all workers. The result is None if the run or its workers ended before
    the second sample. Pages that processes share count in each of them.
    """
    first, *later = run.stored.rows("system") or [SystemRecord(0.0, 0.0, 0, 0)]
    most = max((s.memory_bytes for s in later), default=0)
    return float(most - first.memory_bytes) if most > first.memory_bytes else None
