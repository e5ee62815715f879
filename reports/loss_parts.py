"""When in a change its samples were lost: beside which part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records import ChangeRecord, StepRecord
from harness.samples_lost import Window, lost_between

PREPARING = "newcomers prepare"
COPYING = "state is copied"
STOPPED = "stopped"
SETTLING = "five steps after"
PARTS: Mapping[str, str] = {
    PREPARING: "from the request until the newcomers are counted in, or until the job stops",
    COPYING: "while they take the state and meet, and the others train on",
    STOPPED: "the stopping time",
    SETTLING: "the first steps at the new size, beside what it settles at",
}
"""In the order in which they follow each other."""


def loss_parts(
    change: ChangeRecord, window: Window, steps: Sequence[StepRecord]
) -> dict[str, float] | None:
    """Net samples lost in each of ``PARTS``, which add up to those of the window; None where the
    speed afterwards is not known, or the change does not say for how long it stopped.

    The newcomers' copy ends at the switch. Where it is shorter than the stop, or there is none,
    nobody trained beside it.
    """
    if change.stopping_time_s is None:
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
