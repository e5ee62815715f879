"""Samples lost to a rescale, and the same formula for periods without a change.

*Samples lost* (the glossary's term) is what an undisturbed job would have processed from the
request until five steps after the switch, minus what was processed. A job's own steps vary, so the
number is not 0 even without a change. ``undisturbed`` evaluates the formula without a change over
the same length of time (an A/A trial). A loss within the spread of those trials is not
distinguishable from 0.

A job that shrinks is slower afterwards. The rescale did not cause that, but the formula counts it
as lost in the five steps after the switch. ``Window.lost_net`` is the same number with the steps
after the switch compared with the speed at which the new size settles. ``lost_between`` says when
in the window the samples were lost.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import median

from harness.results.records import StepRecord

STEPS_AFTER_SWITCH = 5
"""Steps after a switch until which samples lost are counted."""
STEPS_BEFORE_REQUEST = 10
"""Steps whose median period gives the undisturbed rate."""
LEAST_STEPS_BEFORE = 3
STEPS_UNTIL_KNOWN = STEPS_AFTER_SWITCH + STEPS_BEFORE_REQUEST
"""Steps needed after a switch: those that count as lost or not, and those that show the speed of
the new size."""


@dataclass(frozen=True, slots=True)
class Window:
    """Period from a request to the end of the fifth step after its switch."""

    requested_s: float
    end_s: float
    period_s: float
    """Median period of the last steps before the request."""
    global_batch: int
    """Samples of each of these steps."""
    first: int
    """Index of the first step that ended after the request."""
    last: int
    """Index of the last step of the window."""
    switch_s: float
    """Time at which the first step at the new size began."""
    lost: float
    """Samples lost."""
    settled_rate: float | None
    """Samples per second at which the new size settles; None if too few steps follow the window."""
    lost_net: float | None
    """Samples lost, with steps after the switch compared with the new size's own speed; None if
    that speed is unknown."""

    @property
    def length_s(self) -> float:
        """Length of the window, in seconds."""
        return self.end_s - self.requested_s


def samples_lost(steps: Sequence[StepRecord], requested_s: float) -> float | None:
    """Return the samples lost to the change requested at that time; None: too few steps on either
    side."""
    window = window_of(steps, requested_s)
    return None if window is None else window.lost


def window_of(steps: Sequence[StepRecord], requested_s: float) -> Window | None:
    """Return the window of a change; None if either side has too few steps.

    The switch is the first step with another number of workers. In a migration it is the step after
    the longest gap since the request.

    Args:
        steps: steps of one job, in the order they were executed.
        requested_s: time of the request, on the clock of the steps.
    """
    first = _first_after(steps, requested_s)
    undisturbed = _period(steps, first)
    if undisturbed is None or first >= len(steps):
        return None
    before, after = steps[first - 1], steps[first:]
    switch = next(
        (i for i, step in enumerate(after) if step.num_workers != before.num_workers), None
    )
    if switch is None:
        gaps = [
            later.started_s - (earlier.started_s + earlier.duration_s)
            for earlier, later in pairwise([before, *after])
        ]
        switch = gaps.index(max(gaps))
    last = first + switch + STEPS_AFTER_SWITCH - 1
    if last >= len(steps):
        return None
    return _window(steps, requested_s, after[switch].started_s, undisturbed, first, last)


def undisturbed(
    steps: Sequence[StepRecord], windows: Sequence[Window], seed: str, number: int
) -> Window | None:
    """Return an A/A trial for a change: an equally long window from a random undisturbed moment.

    The moment lies after the change, or else before it. None: neither stretch of steps is long
    enough.

    Args:
        steps: steps of one job, in the order they were executed.
        windows: windows of all its changes, in order.
        seed: names the random stream.
        number: index of the change, from 0.
    """
    drawn = random.Random(f"undisturbed {seed} {number}")
    starts = [0, *(window.last + 1 for window in windows)]
    ends = [*(window.first - 1 for window in windows), len(steps) - 1]
    for index in (number + 1, number):
        trial = _trial(steps, starts[index], ends[index], windows[number], drawn)
        if trial is not None:
            return trial
    return None


def _trial(
    steps: Sequence[StepRecord], start: int, end: int, like: Window, drawn: random.Random
) -> Window | None:
    """Return an A/A trial within the steps from ``start`` to ``end``; None if they are too few."""
    length_s = like.length_s
    earliest = start + STEPS_BEFORE_REQUEST
    if earliest >= end:
        return None
    low_s, high_s = _end_s(steps[earliest]), _end_s(steps[end]) - length_s
    if high_s <= low_s:
        return None
    requested_s = drawn.uniform(low_s, high_s)
    first = _first_after(steps, requested_s)
    last = _first_after(steps, requested_s + length_s, inclusive=True)
    known = _period(steps, first)
    if known is None or last > end:
        return None
    switch_s = requested_s + (like.switch_s - like.requested_s)
    return _window(steps, requested_s, switch_s, known, first, last)


def _window(
    steps: Sequence[StepRecord],
    requested_s: float,
    switch_s: float,
    undisturbed_rate: tuple[float, int],
    first: int,
    last: int,
) -> Window:
    period_s, global_batch = undisturbed_rate
    end_s = _end_s(steps[last])
    counted = steps[first : last + 1]
    done = float(sum(step.global_batch for step in counted))
    begun_s = requested_s - counted[0].started_s
    if begun_s > 0 and counted[0].duration_s > 0:  # a part of that step is before the request
        done -= counted[0].global_batch * begun_s / counted[0].duration_s
    rate = global_batch / period_s
    lost = rate * (end_s - requested_s) - done
    settled = _settled_rate(steps, last)
    lost_net = None
    if settled is not None:
        lost_net = rate * (switch_s - requested_s) + settled * (end_s - switch_s) - done
    return Window(
        requested_s, end_s, period_s, global_batch, first, last, switch_s, lost, settled, lost_net
    )


def lost_between(
    steps: Sequence[StepRecord], window: Window, start_s: float, end_s: float
) -> float | None:
    """Return the part of ``Window.lost_net`` that falls into a part of the window; None if unknown.

    Over parts that fill the window the results add up to ``lost_net``. A step's samples count
    evenly over its duration, so only a part longer than a step means much.

    Args:
        steps: steps of the job that the window is from.
        window: window of a change.
        start_s: start of the part, on the clock of the steps; time before the window is left out.
        end_s: end of the part; time after the window is left out.
    """
    if window.settled_rate is None:
        return None
    start_s, end_s = max(start_s, window.requested_s), min(end_s, window.end_s)
    if end_s <= start_s:
        return 0.0
    done = 0.0
    for step in steps[window.first : window.last + 1]:
        overlap_s = min(end_s, _end_s(step)) - max(start_s, step.started_s)
        if overlap_s > 0:
            done += step.global_batch * overlap_s / step.duration_s
    before_s = max(0.0, min(end_s, window.switch_s) - start_s)
    after_s = max(0.0, end_s - max(start_s, window.switch_s))
    return window.global_batch / window.period_s * before_s + window.settled_rate * after_s - done


def _settled_rate(steps: Sequence[StepRecord], last: int) -> float | None:
    """Return samples per second of the steps after index ``last`` that have its size; None if too
    few."""
    size = steps[last].num_workers
    after = steps[last : last + STEPS_BEFORE_REQUEST + 1]
    same = list(takewhile(lambda step: step.num_workers == size, after))
    if len(same) < LEAST_STEPS_BEFORE:
        return None
    period_s = median(later.started_s - earlier.started_s for earlier, later in pairwise(same))
    return same[0].global_batch / period_s


def _period(steps: Sequence[StepRecord], first: int) -> tuple[float, int] | None:
    """Return median period and batch of the last steps before index ``first`` at one size."""
    if first < 1:
        return None
    before = steps[max(0, first - STEPS_BEFORE_REQUEST - 1) : first]
    size = before[-1].num_workers
    recent = list(takewhile(lambda step: step.num_workers == size, reversed(before)))
    if len(recent) < LEAST_STEPS_BEFORE:
        return None
    period_s = median(later.started_s - earlier.started_s for later, earlier in pairwise(recent))
    return period_s, recent[0].global_batch


def _first_after(steps: Sequence[StepRecord], at_s: float, inclusive: bool = False) -> int:
    """Return the index of the first step that ends after a time (or at it)."""
    find = bisect_left if inclusive else bisect_right
    return find(steps, at_s, key=_end_s)


def _end_s(step: StepRecord) -> float:
    return step.started_s + step.duration_s
