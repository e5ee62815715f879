"""Rounds of equal length on the engine's clock, for schedulers that hand slots out in turns."""

from __future__ import annotations

import math

from harness.contracts.scheduler import ClusterView
from systems.schedulers.news import arrived_by

_ROUNDING = 1e-9
"""Relative error of a time."""


class Rounds:
    """When rounds begin: at multiples of ``period_s`` seconds.

    A round that was waited for by the decision before begins at its time or later, since a live
    engine may be late; one for which nobody waited only counts if a decision falls on it, or
    is the first to tell of a job that arrived at its time.
    """

    def __init__(self, period_s: float, name: str) -> None:
        """``name``: what the period is called in the options, for the error.

        Raises:
            ValueError: the period is not above 0, or has no end.
        """
        if not 0.0 < period_s < math.inf:
            raise ValueError(f"{name} is {period_s}; give seconds above 0")
        self._period_s = period_s
        self._due_s = math.inf

    def begins(self, view: ClusterView) -> bool:
        """Whether a round begins now; to be asked once in every decision."""
        now_s = view.time_s
        due_s, self._due_s = self._due_s, math.inf
        began_s = self._number(now_s) * self._period_s
        falls_on_it = now_s - began_s <= _ROUNDING * now_s
        return falls_on_it or now_s >= due_s * (1.0 - _ROUNDING) or arrived_by(view, began_s)

    def wake(self, now_s: float) -> float:
        """When the next round begins; it is waited for."""
        self._due_s = (self._number(now_s) + 1) * self._period_s
        return self._due_s

    def _number(self, now_s: float) -> int:
        """Rounds that have begun before or now, not counting the first."""
        return math.floor(now_s / self._period_s * (1.0 + _ROUNDING))
