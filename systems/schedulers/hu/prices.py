"""Prices of nodes, from which a bound on every plan follows: the dual of the capacity rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from systems.schedulers.hu.schedules import Block
from systems.schedulers.hu.tables import MOST_WORTH, Tables, Whole

_FIRST_GUESSES = 8
_PATIENCE = 5
"""Number of steps without a better bound after which the steps become shorter."""
_SHORTER = 0.6
_WORSE = 1e-6
"""Share by which a bound must fall to count as better."""


@dataclass(slots=True)
class Answer:
    """Choices of the jobs at certain prices, and the bound from these prices."""

    prices: list[int]
    choices: Whole
    bound: int
    """Upper bound on the value of every plan, in the tables' unit."""


class PriceSearch:
    """Prices of the nodes of each step that give a low bound.

    The capacity rows, eq. (6), are dualised. At prices >= 0 every job takes its own best schedule.
    The sum of these net values plus the price of all nodes is a bound on every plan. Subgradient
    steps after Polyak lower the bound. All numbers are whole.
    """

    def __init__(self, tables: Tables, blocks: list[Block]) -> None:
        self._tables = tables
        self._blocks = blocks
        self._boldness = 1.0
        self._stalled = 0
        self.best = self._last = self._first()

    def ask(self, prices: list[int]) -> Answer:
        """Return the jobs' best choices at these prices."""
        tables = self._tables
        choices = np.empty((len(tables.extra), tables.num_steps), np.int64)
        bound = sum(prices) * tables.num_extra
        for block in self._blocks:
            choices[block.rows], worth = block.best(prices)
            bound += worth
        return Answer(prices, choices, bound)

    def step(self, target: int) -> None:
        """Make one step towards a bound of ``target``, the value of the best plan known."""
        last, tables = self._last, self._tables
        slope = (tables.used(last.choices) - tables.num_extra).tolist()
        length = sum(one * one for one in slope)
        if length == 0:
            return  # every step is exactly full, so this is the optimum
        factor = self._boldness * (last.bound - target) / length
        prices = [
            max(0, int(price + factor * one)) for price, one in zip(last.prices, slope, strict=True)
        ]
        self._last = answer = self.ask(prices)
        if answer.bound < self.best.bound * (1.0 - _WORSE):
            self._stalled = 0
        else:
            self._stalled += 1
        if self._stalled == _PATIENCE:
            self._boldness *= _SHORTER
            self._stalled = 0
        if answer.bound < self.best.bound:
            self.best = answer

    def _first(self) -> Answer:
        """Return evenly falling prices at which the nodes suffice in total."""
        tables = self._tables
        steps = tables.num_steps
        enough = tables.num_extra * steps
        answer = self.ask([0] * steps)
        low, high = 0, MOST_WORTH // steps
        if int(tables.used(answer.choices).sum()) <= enough:
            return answer
        for _ in range(_FIRST_GUESSES):
            middle = (low + high) // 2
            answer = self.ask([middle * (steps - step) // steps for step in range(steps)])
            if int(tables.used(answer.choices).sum()) > enough:
                low = middle
            else:
                high = middle
        return answer
