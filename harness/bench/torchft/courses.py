"""Costs of a scale-out and of a worker's death, from the times of committed steps: pure functions.

The numbers are defined equally for both systems. For each, the committed steps, the time of the
request and the time of the SIGKILL are known on one clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from harness.errors import RunError

FIRST_STEPS = 20
"""Steps of the first worker that do not count because of its warm-up."""
USUAL_STEPS = 20
"""Number of steps with the same workers whose median is the usual step."""
WARM_STEPS = 10
"""First steps with all workers in which a stop still counts for the scale-out."""


class CourseError(RunError):
    """Error for a training that did not go through all its phases; the text says which failed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One committed step."""

    started_s: float
    ended_s: float
    num_workers: int


@dataclass(frozen=True, slots=True)
class Course:
    """A training on one worker that was scaled out once, and then lost a worker."""

    steps: Sequence[Step]
    asked_s: float
    """Time when more workers were requested or started."""
    killed_s: float
    """Time when one worker was sent SIGKILL."""


def costs(course: Course) -> dict[str, float]:
    """Return the costs of the scale-out and of the death, seconds.

    - ``step_s``, ``step_all_s``: a usual step, end to end, of one worker and of all;
    - ``noise_s``: the longest step before the request, beyond a usual one;
    - ``scaling_time_s``: from the request to the end of the first step with all workers;
    - ``stopping_time_s``: the longest step from the request to the tenth step with all, beyond
      a usual one (of all workers, where some have come and others have not);
    - ``recovery_s``: from the SIGKILL to the end of the next step without the killed worker,
      beyond a usual one.

    Raises:
        CourseError: there are too few steps of a kind.
    """
    asked_s, killed_s = course.asked_s, course.killed_s
    most = max((step.num_workers for step in course.steps), default=0)
    before = [step for step in course.steps if step.ended_s <= asked_s][FIRST_STEPS:]
    whole = [s for s in course.steps if s.num_workers == most and asked_s < s.started_s < killed_s]
    after = [s for s in course.steps if s.num_workers < most and s.ended_s > killed_s]
    fewest = min(map(len, (before, whole, after)))
    if fewest <= USUAL_STEPS:
        raise CourseError(
            f"{len(before)} steps before the request, {len(whole)} with all workers and"
            f" {len(after)} after the death; {USUAL_STEPS + 1} of each are needed"
        )
    step_s = median(_periods(before))
    step_all_s = median(_periods(whole[-USUAL_STEPS - 1 :]))
    until_s = whole[WARM_STEPS - 1].ended_s
    around = [before[-1], *(s for s in course.steps if asked_s < s.ended_s <= until_s)]
    usual_s = [
        step_s if step.num_workers == before[0].num_workers else step_all_s for step in around[1:]
    ]
    return {
        "step_s": step_s,
        "step_all_s": step_all_s,
        "noise_s": max(_periods(before)) - step_s,
        "scaling_time_s": whole[0].ended_s - asked_s,
        "stopping_time_s": max(
            period - usual for period, usual in zip(_periods(around), usual_s, strict=True)
        ),
        "recovery_s": after[0].ended_s - killed_s - median(_periods(after[: USUAL_STEPS + 1])),
    }


def _periods(steps: Sequence[Step]) -> list[float]:
    return [later.ended_s - earlier.ended_s for earlier, later in pairwise(steps)]
