"""Hangs in stored runs: the time to their detection, and workers killed by mistake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.metrics.hangs import detection_s, false_kills
from reports.measures.recoveries import recoveries
from reports.runs.selection import ReportRun


@dataclass(frozen=True, order=True)
class HangCell:
    """Group of runs: the properties that these share."""

    workload: str
    stress_processes: int
    """Number of busy processes that run next to the workers."""
    hang_timeout_s: float


@dataclass(frozen=True)
class Watched:
    """Results of a cell, over all its runs."""

    runs: Sequence[ReportRun]
    num_hangs: int
    detection_s: Sequence[float]
    """Seconds from the signal to the kill of the silent worker, for each detected hang."""
    next_step_s: Sequence[float]
    """Seconds from the signal to the end of the survivors' next step, minus a usual step."""
    num_false_kills: int
    hours: float
    """Wall-clock hours in which the job held two slots or more, so that a worker could be
    accused."""


def watched(runs: Iterable[ReportRun]) -> dict[HangCell, Watched]:
    """Return the cells, sorted, of the runs whose backend has a time-out for silent workers."""
    found: dict[HangCell, list[ReportRun]] = {}
    for run in runs:
        stress, timeout_s = _stress(run), _timeout_s(run)
        if stress is not None and timeout_s is not None:
            cell = HangCell(run.jobs[0].workload, stress, timeout_s)
            found.setdefault(cell, []).append(run)
    return {cell: _watched(own) for cell, own in sorted(found.items())}


def _watched(runs: Sequence[ReportRun]) -> Watched:
    detections: list[float] = []
    kills, num_hangs = 0, 0
    for run in runs:
        faults, accusations = run.stored.rows("faults"), run.stored.rows("accusations")
        known = [detection_s(fault, accusations) for fault in faults]
        detections += [one for one in known if one is not None]
        num_hangs += sum(fault.signal == "SIGSTOP" for fault in faults)
        kills += len(false_kills(faults, accusations))
    struck = [run for run in runs if run.stored.rows("faults")]  # only these runs need their steps
    hangs = [one for one in recoveries(struck) if one.fault.signal == "SIGSTOP"]
    held_s = sum(
        (grant.end_s - grant.start_s) * run.dilation
        for run in runs
        for grant in run.grants
        if len(grant.slots) > 1
    )
    return Watched(
        runs=runs,
        num_hangs=num_hangs,
        detection_s=detections,
        next_step_s=[one.recovery_s for one in hangs if one.recovery_s is not None],
        num_false_kills=kills,
        hours=held_s / 3600.0,
    )


def _stress(run: ReportRun) -> int | None:
    """Return the number of busy processes; None if the run records no accusations or no jobs."""
    count = run.stored.facts.get("stress_processes")
    return None if count is None or not run.jobs else int(count)


def _timeout_s(run: ReportRun) -> float | None:
    value = run.stored.config.get("backend", {}).get("hang_timeout_s")
    return None if value is None else float(value)
