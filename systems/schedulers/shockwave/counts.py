"""Rounds of each job within one budget of slots: a plan by prices, and what no plan exceeds.

A plan is worth what its rounds gain, less a weight times the longest time left. Let M be the
longest time left. Then a job must have the rounds without which it would have more than M left, and
the other rounds compete for the budget. Two bounds follow for each M:

- A slot of a round has a price, the same for all. No plan is worth more than the gains, less their
  price, of the rounds that pay or are forced, and the price of the whole budget (Lagrange's dual).
  One price bounds all M at once; bisection finds that of the least bound.
- The forced rounds, then those that gain most per slot, and of the last as much as fits (the linear
  relaxation). Without that part of a round it is a plan, often the best one.

So the times M are visited by their bound at the best price, as long as it is above the best plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_STEPS = 60
"""Halvings of the range of prices, at most."""
_NEAR = 1e-7
"""Share of a price by which the search may miss it."""
_DIGITS = 40
"""Binary digits by which numbers are told apart: the others differ between machines."""
_NOISE = 1e-12
"""Share of a value that counts for none, as those digits."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is shared out, and what time left costs."""

    room: int
    """Slots times rounds."""
    round_s: float
    makespan_weight: float
    """Per second of the longest time left."""


class Plan(NamedTuple):
    """Rounds of each job."""

    counts: list[int]
    value: float
    bound: float
    """What none of the plans exceeds among which this one was looked for."""

    def is_within(self, gap: float) -> bool:
        """Whether the bound shows that so small a share of the optimum is missed at most."""
        return abs(self.bound - self.value) <= gap * abs(self.value)


def near_best(
    values: Sequence[Sequence[float]],
    widths: Sequence[int],
    left_s: Sequence[float],
    budget: Budget,
) -> Plan:
    """A plan whose bound is mostly near: not where the widths fill the budget badly.

    Args:
        values: of each job without a round, with one, and so on to the most that it can use; the
            first rounds should gain most, or the bound is not near.
        widths: slots of each job.
        left_s: seconds that each job has to run.
        budget: what is shared out; not all can have all that they can use.
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
    """Every round that a job could have, those first that the longest times force."""

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
        """Of every M that could be the best; the one at index i forces the first i rounds."""
        self._per_slot = _rounded(self._gains / self._widths)
        # Ties to the earlier job, and within a job to the earlier round.
        self._by_gain = np.lexsort((self._numbers, self._jobs, -self._per_slot))

    def bounds(self) -> NDArray[np.float64]:
        """For every M what no plan exceeds, at the price at which the greatest of these is least.

        The greatest is convex in the price, and falls where the rounds that pay or are forced by
        its M need more than the budget.
        """
        # At the highest price no round pays, nor does it pay to force one.
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

    def fill(self, forced: int) -> Plan:
        """The forced rounds, then those that gain most per slot, as long as there is room."""
        room = self._room - int(self._widths[:forced].sum())
        counts = np.bincount(self._jobs[:forced], minlength=self._num_jobs)
        if room < 0:
            return Plan(counts.tolist(), -math.inf, -math.inf)
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
        return Plan(counts.tolist(), float(value), float(bound))


def _rounded(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without their last digits, so that what should be equal is."""
    mantissas, exponents = np.frexp(numbers)
    rounded: NDArray[np.float64] = np.round(mantissas * 2.0**_DIGITS) * 2.0**-_DIGITS
    return np.asarray(np.ldexp(rounded, exponents), dtype=np.float64)
