"""Real periods from one step to the next while a job trains undisturbed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from harness.results.records import StepRecord

WARM_UP_STEPS = 3
"""Steps after every change that are left out."""

_GAP_STEPS, _GAP_S = 3.0, 0.2
"""Limits in median steps and in seconds; a pause longer than both ends a stretch of steps."""


def stretches(steps: Sequence[StepRecord]) -> list[list[StepRecord]]:
    """Return the steps between one change and the next: same workers, and no pause in between."""
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
    """Return the seconds from the start of one step to the next, by number of workers.

    The first steps of each stretch are left out.
    """
    periods: dict[int, list[float]] = {}
    for stretch in stretches(steps):
        settled = stretch[WARM_UP_STEPS:]
        found = [later.started_s - earlier.started_s for earlier, later in pairwise(settled)]
        periods.setdefault(stretch[0].num_workers, []).extend(found)
    return periods
