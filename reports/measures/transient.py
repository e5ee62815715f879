"""Throughput of jobs that get slots for a short time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from harness.results.records import StepRecord
from reports.measures.rescales import system_names
from reports.runs.selection import ReportRun


@dataclass(frozen=True)
class TransientPoint:
    """Run that used a transient slot."""

    run_id: str
    workload: str
    system: str
    window_s: float
    samples_per_s: float
    stop_s: float | None
    """Median stopping time of the run's changes, seconds."""


def transient_points(runs: Sequence[ReportRun]) -> list[TransientPoint]:
    """Return the points of runs whose script repeats on the clock.

    The throughput is over all whole windows except the first.
    """
    scripted = [run for run in runs if _every_s(run) > 0]
    names = system_names(scripted)
    found = []
    for run in scripted:
        window_s = _every_s(run)
        speed = whole_windows(run.stored.rows("steps"), window_s, script_end_s(run))
        stops = [c.stopping_time_s for c in run.changes if c.stopping_time_s is not None]
        if speed is not None:
            found.append(
                TransientPoint(
                    run.run_id, run.jobs[0].workload, names[run.run_id], window_s, speed,
                    median(stops) if stops else None,
                )
            )  # fmt: skip
    return found


def script_end_s(run: ReportRun) -> float:
    """Return the time of the last completed change of slots; a job may continue after its
    script."""
    ends = [change.ended_s for change in run.changes if change.ended_s is not None]
    return max(ends, default=math.inf)


def whole_windows(
    steps: Sequence[StepRecord], window_s: float, until_s: float = math.inf
) -> float | None:
    """Return the samples per second over all whole windows but the first; None if there is none.

    A step across the end of a window counts in proportion to its part inside.

    Args:
        steps: steps of one job, in order.
        window_s: length of a window; the first begins at 0.
        until_s: windows that end later do not count.
    """
    if not steps:
        return None
    last_s = min(steps[-1].started_s + steps[-1].duration_s, until_s)
    end_s = int(last_s // window_s) * window_s
    if end_s <= window_s:
        return None
    samples = 0.0
    for step in steps:
        stop_s = step.started_s + step.duration_s
        inside_s = min(stop_s, end_s) - max(step.started_s, window_s)
        if inside_s > 0:
            samples += step.global_batch * inside_s / step.duration_s
    return samples / (end_s - window_s)


def steady_speeds(runs: Sequence[ReportRun]) -> dict[str, dict[int, float]]:
    """Return the samples per second of runs that never changed, by workload and slots.

    The values are means over runs, for workloads with runs on one slot and on two.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        steps = run.stored.rows("steps") if not run.jobs[0].num_rescales else []
        if len(steps) < 20 or _every_s(run) > 0:
            continue
        settled = steps[10:]
        length_s = settled[-1].started_s + settled[-1].duration_s - settled[0].started_s
        speed = sum(step.global_batch for step in settled) / length_s
        by_slots = found.setdefault(run.jobs[0].workload, {})
        by_slots.setdefault(settled[0].num_workers, []).append(speed)
    return {
        workload: {slots: fmean(values) for slots, values in by_slots.items()}
        for workload, by_slots in found.items()
        if {1, 2} <= by_slots.keys()
    }


def _every_s(run: ReportRun) -> float:
    return float(run.stored.config.get("scheduler", {}).get("every_s") or 0.0)


def break_even_s(stop_s: float, gain: float) -> float:
    """Return the least time T* that a transient slot must stay to be of use, in seconds.

    In this time, a share ``gain`` of more throughput brings what two rescales of ``stop_s`` seconds
    cost: 2 s (1 + g) / g (systems.md, section 1.11).
    """
    return 2 * stop_s * (1 + gain) / gain
