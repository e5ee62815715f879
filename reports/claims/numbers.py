"""Numbers of a run for criteria, computed from its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from harness.contracts.change import ChangeKind
from harness.results.records import ChangeRecord, StepRecord
from reports.claims.live_numbers import LIVE_NUMBERS
from reports.measures.cluster_numbers import CLUSTER_NUMBERS
from reports.runs.selection import ReportRun


def _grows(change: ChangeRecord) -> bool:
    return change.kind == ChangeKind.RESCALE and len(change.to_slots) > len(change.from_slots)


def _shrinks(change: ChangeRecord) -> bool:
    return change.kind == ChangeKind.RESCALE and len(change.to_slots) < len(change.from_slots)


def _moves(change: ChangeRecord) -> bool:
    return change.kind == ChangeKind.MIGRATE


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _stop_s(run: ReportRun, kind: Callable[[ChangeRecord], bool]) -> float | None:
    """Return the median stopping time of the changes of a kind, in seconds."""
    stops = [each.stopping_time_s for each in run.changes if kind(each)]
    return _median([stop for stop in stops if stop is not None])


def _stops_by_case(run: ReportRun) -> list[float]:
    """Return the median stopping time of every kind of change and pair of sizes, in seconds."""
    found: dict[tuple[str, int, int], list[float]] = {}
    for change in run.changes:
        if change.kind in (ChangeKind.RESCALE, ChangeKind.MIGRATE) and change.stopping_time_s:
            case = (str(change.kind), len(change.from_slots), len(change.to_slots))
            found.setdefault(case, []).append(change.stopping_time_s)
    return [median(own) for own in found.values()]


def _stop_most_over_least(run: ReportRun) -> float | None:
    stops = _stops_by_case(run)
    return max(stops) / min(stops) if len(stops) > 1 else None


def _steps(run: ReportRun) -> list[StepRecord]:
    return run.stored.rows("steps")


def _stop_steps(run: ReportRun, kind: Callable[[ChangeRecord], bool]) -> float | None:
    """Return the median stopping time of the changes of a kind, in steps on the fewest workers.

    The length of such a step is the median before the job grows, or after it shrinks.
    """
    stop_s = _stop_s(run, kind)
    steps = _steps(run)
    if stop_s is None or not steps:
        return None
    fewest = min(step.num_workers for step in steps)
    step_s = median(step.duration_s for step in steps if step.num_workers == fewest)
    return stop_s / step_s


def _in_over_out(run: ReportRun) -> float | None:
    """Return the stopping time of a scale-in over that of a scale-out."""
    less_s, more_s = _stop_s(run, _shrinks), _stop_s(run, _grows)
    return less_s / more_s if less_s is not None and more_s else None


def _throughput_per_slot(run: ReportRun) -> float | None:
    """Return samples per second of the median step, per worker; None if the size changed."""
    steps = _steps(run)
    if not steps or len({step.num_workers for step in steps}) > 1:
        return None
    step_s = median(step.duration_s for step in steps)
    return steps[0].global_batch / step_s / steps[0].num_workers


def _steps_with_equal_losses(run: ReportRun) -> float | None:
    """Return the number of steps before the first loss that differs from fixed workers', least over
    jobs."""
    held = run.stored.rows("fixed_size")
    return float(min(record.equal_steps for record in held)) if held else None


NUMBERS: Mapping[str, Callable[[ReportRun], float | None]] = {
    "stop_scale_out_median_s": lambda run: _stop_s(run, _grows),
    "stop_scale_in_median_s": lambda run: _stop_s(run, _shrinks),
    "stop_migrate_median_s": lambda run: _stop_s(run, _moves),
    "stop_scale_out_median_steps": lambda run: _stop_steps(run, _grows),
    "stop_scale_in_median_steps": lambda run: _stop_steps(run, _shrinks),
    "stop_scale_in_over_out": _in_over_out,
    "stop_most_over_least_case": _stop_most_over_least,
    "stop_of_longest_case_s": lambda run: max(_stops_by_case(run), default=None),
    "throughput_per_slot_samples_per_s": _throughput_per_slot,
    "steps_with_equal_losses": _steps_with_equal_losses,
    **CLUSTER_NUMBERS,
    **LIVE_NUMBERS,
}
"""Functions by the name that criteria use; the unit is in the name."""
