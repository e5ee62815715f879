"""Rounds of each job within a budget of slots: a plan by prices, and a bound on every plan.

The value of a plan is the gain of its rounds minus a weight times the longest time left. Let M be
the longest time left. Then every job needs enough rounds to have at most M left (forced rounds),
and the other rounds compete for the budget. Two bounds follow for each M:

- Lagrange's dual: a slot of a round has a price, the same for all. A round pays if it gains more
  than its price. Take the rounds that pay or are forced. The value of any plan is at most the gains
  of these rounds minus their price, plus the price of the whole budget. One price bounds all M at
  once; bisection finds the price of the least bound.
- The linear relaxation: the forced rounds, then the rounds that gain most per slot, and the part of
  the last round that fits. Without that part it is a plan, often the best plan.

So the times M are visited in the order of their bound at the best price, as long as the bound is
above the best plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_STEPS = 60
"""Largest number of halvings of the range of prices."""
_NEAR = 1e-7
"""Relative error of a price at which the search ends."""
_DIGITS = 40
"""Binary digits that are kept in comparisons; later digits differ between machines."""
_NOISE = 1e-12
"""Relative difference of values that is ignored, for the reason of ``_DIGITS``."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Slots to distribute, and the cost of time left."""

    room: int
    """Slots times rounds."""
    round_s: float
    makespan_weight: float
    """Weight per second of the longest time left."""


class WindowPlan(NamedTuple):
    """Rounds of each job."""

    counts: list[int]
    value: float
    bound: float
    """Upper bound on the value of all plans that were searched."""

    def is_within(self, gap: float) -> bool:
        """Return whether the bound proves that the plan is within the share ``gap`` of the
        optimum."""
        return abs(self.bound - self.value) <= gap * abs(self.value)


def near_best(
    values: Sequence[Sequence[float]],
    widths: Sequence[int],
    left_s: Sequence[float],
    budget: Budget,
) -> WindowPlan:
    """Return a plan that is mostly near its bound, unless the widths fill the budget badly.

    Args:
        values: values of each job with 0, 1, ... rounds, up to the most that it can use; the first
            rounds should gain most, or the bound is not tight.
        widths: slots of each job.
        left_s: remaining run time of each job, seconds.
        budget: slots to distribute; they must be too few for all rounds that the jobs can use.
    """
    rounds = _Rounds(values, widths, left_s, budget)
    bounds = rounds.bounds()
    best, bound = rounds.fill(0), -math.inf
    for forced in np.argsort(-_rounded(bounds), kind="stable"):
        better = best.value + _NOISE * abs(best.value)
        if bounds[forced] <= better:
            bound = max(bound, bounds[forced])
            break
        plan = rounds.fill(int(forced))
        bound = max(bound, min(plan.bound, bounds[forced]))
        best = plan if plan.value > better else best
    return best._replace(bound=float(bound))


class _Rounds:
    """All rounds that jobs could have; rounds that the longest times force come first."""

    def __init__(
        self,
        values: Sequence[Sequence[float]],
        widths: Sequence[int],
        left_s: Sequence[float],
        budget: Budget,
    ) -> None:
        self._room, self._num_jobs = budget.room, len(values)
        self._base = math.fsum(own[0] for own in values)
        most = [len(own) - 1 for own in values]
        jobs = np.repeat(np.arange(len(values)), most)
        numbers = np.concatenate([np.arange(n) for n in most])
        without_s = np.asarray(left_s, dtype=float)[jobs] - numbers * budget.round_s
        order = np.argsort(-without_s, kind="stable")
        self._jobs, self._numbers = jobs[order], numbers[order]
        self._gains = np.concatenate([np.diff(own) for own in values])[order]
        self._widths = np.asarray(widths)[self._jobs]
        ends_s = (left - n * budget.round_s for left, n in zip(left_s, most, strict=True))
        least_s = max(0.0, *ends_s)
        times_s = np.append(without_s[order][without_s[order] > least_s], least_s)
        self._costs = budget.makespan_weight * times_s
        """Cost of every M that could be the best; the M at index i forces the first i rounds."""
        self._per_slot = _rounded(self._gains / self._widths)
        # Ties go to the earlier job, and within a job to the earlier round.
        self._by_gain = np.lexsort((self._numbers, self._jobs, -self._per_slot))

    def bounds(self) -> NDArray[np.float64]:
        """Return for every M a bound on all plans, at the price with the smallest greatest bound.

        The greatest bound is convex in the price. It falls while the rounds that pay or are forced
        by its M need more than the budget.
        """
        # At the highest price no round pays, and forcing a round does not pay either.
        low, high = 0.0, float(self._per_slot.max() + self._costs[0])
        best = np.array([math.inf])
        for _ in range(_STEPS):
            price = 0.5 * (low + high)
            profits = self._gains - price * self._widths
            pays = profits > 0.0
            losses = np.cumsum(np.where(pays, 0.0, profits))[: len(self._costs) - 1]
            bounds = np.concatenate(([0.0], losses)) - self._costs
            bounds += self._base + price * self._room + profits[pays].sum()
            if bounds.max() < best.max():
                best = bounds
            pays[: np.argmax(_rounded(bounds))] = True
            low, high = (price, high) if self._widths[pays].sum() > self._room else (low, price)
            if high - low <= _NEAR * high:
                break
        return best

    def fill(self, forced: int) -> WindowPlan:
        """Return the plan of the forced rounds, then of the rounds that gain most per slot, while
        they fit."""
        room = self._room - int(self._widths[:forced].sum())
        counts = np.bincount(self._jobs[:forced], minlength=self._num_jobs)
        if room < 0:
            return WindowPlan(counts.tolist(), -math.inf, -math.inf)
        rest = self._by_gain[self._by_gain >= forced]
        used = np.cumsum(self._widths[rest])
        fits = int(np.searchsorted(used, room, side="right"))
        taken, left_out = rest[:fits], rest[fits:]
        counts += np.bincount(self._jobs[taken], minlength=self._num_jobs)
        bound = self._base + self._gains[:forced].sum() + self._gains[taken].sum()
        bound -= self._costs[forced]
        room -= int(used[fits - 1]) if fits else 0
        if left_out.size:
            bound += room * max(0.0, self._gains[left_out[0]] / self._widths[left_out[0]])
        least = int(self._widths.min())
        for one in left_out:
            if room < least:
                break
            job = self._jobs[one]
            if self._widths[one] <= room and counts[job] == self._numbers[one]:
                counts[job] += 1
                room -= int(self._widths[one])
        has = self._numbers < counts[self._jobs]
        lacks = np.append(~has[: len(self._costs) - 1], True)
        value = self._base + self._gains[has].sum() - self._costs[np.argmax(lacks)]
        return WindowPlan(counts.tolist(), float(value), float(bound))


def _rounded(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers without their last digits, so that equal values compare as equal."""
    mantissas, exponents = np.frexp(numbers)
    rounded: NDArray[np.float64] = np.round(mantissas * 2.0**_DIGITS) * 2.0**-_DIGITS
    return np.asarray(np.ldexp(rounded, exponents), dtype=np.float64)
