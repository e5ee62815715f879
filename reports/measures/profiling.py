"""Profiles measured by successive scale-in of a running job (EDL, section 6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.results.records import ChangeRecord


@dataclass(frozen=True)
class Profile:
    """One series of scale-ins from the largest size to one slot; times are wall-clock seconds."""

    largest: int
    """Number of slots at the beginning."""
    total_s: float
    """Time from the first step at the largest size to the end of the last measured step."""
    stopping_s: float
    """Part of this time in which the workers that stay did not train."""

    @property
    def training_s(self) -> float:
        """Rest of the time: steps at every size, also while a change was prepared."""
        return self.total_s - self.stopping_s


def profiles(changes: Sequence[ChangeRecord], dilation: float = 1.0) -> list[Profile]:
    """Return every series of scale-ins of one job, by one slot at a time down to one slot.

    A series begins when the job has the largest size and ends with the request of the next change.
    That request comes after the measured steps on one slot.
    """
    found = []
    sizes: list[int] = []
    began_s, stopping_s = 0.0, 0.0
    for change in sorted(changes, key=lambda change: change.requested_s):
        before, after = len(change.from_slots), len(change.to_slots)
        if len(sizes) > 1 and sizes[-1] == 1:
            total_s = (change.requested_s - began_s) * dilation
            found.append(Profile(sizes[0], total_s, stopping_s))
        if change.outcome != "done" or change.ended_s is None:
            sizes = []
        elif sizes and before == sizes[-1] and after == before - 1 and after:
            if change.stopping_time_s is None:
                sizes = []
                continue
            sizes.append(after)
            stopping_s += change.stopping_time_s
        else:
            sizes, began_s, stopping_s = [after], change.ended_s, 0.0
    return found
