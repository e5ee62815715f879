"""Parts of a change of size, and the samples lost in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.metrics.samples_lost import Window, lost_between
from harness.results.records import ChangeRecord, StepRecord

PARTS: Mapping[str, str] = {
    "until counted in": "from the request until the newcomers are counted in, or until the stop "
    "if no newcomer takes the state while others train",
    "joining": "from then to the stop: newcomers take the state or wait for it, and connect to "
    "the other workers",
    "stopped": "the stopping time",
    "five steps after": "the first steps at the new size, compared with the speed at which it "
    "settles",
}
"""Parts of a change of size with their meaning, in the order in which they follow each other."""


def loss_parts(
    change: ChangeRecord, window: Window, steps: Sequence[StepRecord]
) -> dict[str, float] | None:
    """Return the net samples lost in each of ``PARTS``, which add up to those of the window.

    The result is None if the speed afterwards is unknown or the change has no stopping time. It is
    also None for a migration, whose switch is not known exactly enough. A newcomer's phase ``copy``
    begins when the newcomer is counted in and ends at the switch.
    """
    if change.stopping_time_s is None or change.kind != "rescale":
        return None
    stopped_s = window.switch_s - change.stopping_time_s
    copied_s = min(stopped_s, window.switch_s - change.phases_s.get("copy", 0.0))
    bounds = [window.requested_s, copied_s, stopped_s, window.switch_s, window.end_s]
    found: dict[str, float] = {}
    for part, start_s, end_s in zip(PARTS, bounds, bounds[1:], strict=False):
        lost = lost_between(steps, window, start_s, end_s)
        if lost is None:
            return None
        found[part] = lost
    return found
