"""How long steps really take from one to the next, where a job trains undisturbed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from harness.records import StepRecord

WARM_UP_STEPS = 3
"""Steps after every change that do not count."""

_GAP_STEPS, _GAP_S = 3.0, 0.2
"""A pause longer than both, in usual steps and seconds, ends a stretch of steps."""


def stretches(steps: Sequence[StepRecord]) -> list[list[StepRecord]]:
    """Steps between one change and the next: same workers, and no pause in between."""
    if not steps:
        return []
    usual_s = median(step.duration_s for step in steps)
    gap_s = max(_GAP_S, _GAP_STEPS * usual_s)
    found = [[steps[0]]]
    for before, step in pairwise(steps):
        pause_s = step.started_s - before.started_s - before.duration_s
        if step.num_workers != before.num_workers or pause_s > gap_s:
            found.append([])
        found[-1].append(step)
    return found


def step_periods(steps: Sequence[StepRecord]) -> dict[int, list[float]]:
    """Seconds from the start of one step to that of the next, by number of workers, without the
    first steps of each stretch."""
    periods: dict[int, list[float]] = {}
    for stretch in stretches(steps):
        settled = stretch[WARM_UP_STEPS:]
        found = [later.started_s - earlier.started_s for earlier, later in pairwise(settled)]
        periods.setdefault(stretch[0].num_workers, []).extend(found)
    return periods
