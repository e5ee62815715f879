"""Numbers of a live run for criteria: phases, profiles, stragglers, speed, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean, median

from harness.contracts.change import ChangeKind
from harness.results.records import StepRecord
from reports.measures.profiling import profiles
from reports.measures.step_speed import samples_per_s, workers_memory_bytes
from reports.measures.stragglers import Case, cases
from reports.measures.transient import script_end_s, whole_windows
from reports.runs.selection import ReportRun

CONTEXT = ("spawn", "import", "warm_up")
"""Phases of a change that EDL calls the preparation of the execution context."""
TOPOLOGY = ("group",)
MODEL = ("build", "load", "copy", "save")
SETTLED_STEPS = 10
"""Number of steps left out at the beginning of a run that keeps its size."""


def _context_share(run: ReportRun) -> float | None:
    """Return the execution context's share of the time of a scale-out, median over scale-outs.

    The time is that of context, communication topology and model, as in EDL's figure 6.
    """
    shares = []
    for change in run.changes:
        grows = len(change.to_slots) > len(change.from_slots)
        if change.kind != ChangeKind.RESCALE or not grows or not change.phases_s:
            continue
        context, topology, model = (
            sum(change.phases_s.get(name, 0.0) for name in names)
            for names in (CONTEXT, TOPOLOGY, MODEL)
        )
        shares.append(context / (context + topology + model))
    return median(shares) if shares else None


def _profiling_s(run: ReportRun) -> float | None:
    """Return the mean time from the first step at the largest size to the last at one slot."""
    found = [each.total_s for each in profiles(run.changes, run.dilation)]
    return fmean(found) if found else None


def _straggler(run: ReportRun, number: Callable[[Case], float | None]) -> float | None:
    found = cases([run])
    return number(found[0]) if found else None


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _transient_speed(run: ReportRun) -> float | None:
    """Return samples per second over all complete windows except the first, or over settled steps.

    Settled steps are used if the run's scheduler has no windows (option ``every_s``).
    """
    steps: list[StepRecord] = run.stored.rows("steps")
    window_s = float(run.stored.config.get("scheduler", {}).get("every_s") or 0.0)
    if window_s > 0:
        return whole_windows(steps, window_s, script_end_s(run))
    settled = steps[SETTLED_STEPS:]
    if len(settled) < SETTLED_STEPS:
        return None
    length_s = settled[-1].started_s + settled[-1].duration_s - settled[0].started_s
    return sum(step.global_batch for step in settled) / length_s


def _at_own_speeds(run: ReportRun, metric: str) -> float | None:
    """Return the ratio of a metric simulated with the run's own speeds to the live metric."""
    return _share(run.metrics.get(f"resimulated_{metric}"), run.metrics.get(metric))


LIVE_NUMBERS: Mapping[str, Callable[[ReportRun], float | None]] = {
    "context_share_of_scale_out": _context_share,
    "profiling_time_mean_s": _profiling_s,
    "speed_with_straggler_over_usual": lambda run: _straggler(
        run, lambda case: _share(case.slow, case.usual)
    ),
    "speed_after_removal_over_usual": lambda run: _straggler(
        run, lambda case: _share(case.after, case.usual)
    ),
    "straggler_detected_s": lambda run: _straggler(run, lambda case: case.detected_s),
    "straggler_gone_s": lambda run: _straggler(run, lambda case: case.switched_s),
    "windowed_samples_per_s": _transient_speed,
    "settled_samples_per_s": samples_per_s,
    "workers_memory_peak_bytes": workers_memory_bytes,
    "jct_mean_at_own_speeds_over_live": lambda run: _at_own_speeds(run, "jct_mean_s"),
    "makespan_at_own_speeds_over_live": lambda run: _at_own_speeds(run, "makespan_s"),
}
"""Functions by the name that criteria use; the unit is in the name."""
