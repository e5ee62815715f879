"""Rounds of equal length on the engine's clock, for schedulers that hand out slots in turns."""

from __future__ import annotations

import math

from harness.contracts.view import ClusterView
from systems.schedulers.common.news import arrived_by

_ROUNDING = 1e-9
"""Relative rounding error of a time."""


class Rounds:
    """Rounds that begin at multiples of ``period_s`` seconds.

    A round that the previous decision waited for begins at its time or later, since a live engine
    may be late. A round that no decision waited for counts only if a decision falls on its time or
    is the first to report a job that arrived by then.
    """

    def __init__(self, period_s: float, name: str) -> None:
        """Begin at time 0.

        Args:
            period_s: length of a round, seconds.
            name: name of the option with the period, for the error.

        Raises:
            ValueError: the period is not above 0, or is infinite.
        """
        if not 0.0 < period_s < math.inf:
            raise ValueError(f"{name} is {period_s}; give seconds above 0")
        self._period_s = period_s
        self._due_s = math.inf

    def begins(self, view: ClusterView) -> bool:
        """Return whether a round begins now. The caller must ask once in every decision."""
        now_s = view.time_s
        due_s, self._due_s = self._due_s, math.inf
        began_s = self._number(now_s) * self._period_s
        falls_on_it = now_s - began_s <= _ROUNDING * now_s
        return falls_on_it or now_s >= due_s * (1.0 - _ROUNDING) or arrived_by(view, began_s)

    def wake(self, now_s: float) -> float:
        """Return the begin of the next round, and remember that a decision waits for it."""
        self._due_s = (self._number(now_s) + 1) * self._period_s
        return self._due_s

    def _number(self, now_s: float) -> int:
        """Return how many rounds have begun by now, not counting the first."""
        return math.floor(now_s / self._period_s * (1.0 + _ROUNDING))
