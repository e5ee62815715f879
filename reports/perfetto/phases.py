"""Places of a change's phases on the timeline.

Records have the duration of each phase, not its beginning. So phases are laid end to end, and the
last ends with the change: a change is done when its last phase is over. The time before the first
phase is that in which the change waited, for example for the end of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FIRST_STEP, _SWITCH = "first_step", "switch"


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a change, as a slice of the timeline."""

    name: str
    start_us: int
    end_us: int
    recorded_s: float
    """Recorded duration, in wall-clock seconds if the run is live."""
    drawn_share: float
    """Drawn duration over the recorded one; below 1 if phases of several workers overlapped."""


def laid_out(
    phases_s: Mapping[str, float], start_us: int, end_us: int, dilation: float = 1.0
) -> list[Phase]:
    """Return the phases of a change in order of time, inside the change.

    Workers go through phases in parallel, so the durations together can be longer than the change.
    All phases are then shortened by the same factor.

    Args:
        phases_s: duration of each phase, as recorded.
        start_us: request of the change on the run's clock.
        end_us: end of the change.
        dilation: wall-clock seconds per second of the run's clock.
    """
    names = _in_order([*phases_s])
    left_us = sum(phases_s.values()) / dilation * 1e6
    share = min(1.0, (end_us - start_us) / left_us) if left_us > 0 else 1.0
    at_us, placed = max(start_us, end_us - round(left_us * share)), []
    for name in names:
        left_us -= phases_s[name] / dilation * 1e6
        # From the end, as rounded sums of durations could reach over it.
        until_us = min(end_us, max(at_us, end_us - round(left_us * share)))
        placed.append(Phase(name, at_us, until_us, phases_s[name], share))
        at_us = until_us
    return placed


def _in_order(names: Sequence[str]) -> list[str]:
    """Return recorded phases in order of time.

    Phases are recorded by worker. If the first worker of a record was there before the change, the
    newcomers' phases follow its first step; they came before it. Workers switch right before the
    first step.
    """
    if _FIRST_STEP not in names:
        return [*names]
    place = names.index(_FIRST_STEP)
    ordered = [*names[place + 1 :], *names[:place]]
    last = [_SWITCH, _FIRST_STEP] if _SWITCH in names else [_FIRST_STEP]
    return [name for name in ordered if name != _SWITCH] + last
