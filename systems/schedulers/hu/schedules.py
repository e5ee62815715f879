"""Best schedule of every job at given prices of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from systems.schedulers.hu.tables import MOST_WORTH, Tables, Whole

Prices = Sequence[int]
"""Price of a node in each step, in the tables' unit."""
_TOO_DEAR = 2 * MOST_WORTH
"""Upper bound on costs, above any value, which keeps differences within 32 bits.

A schedule with this cost is worse than the schedule of first choices, which costs nothing.
"""


class Block(Protocol):
    """Group of jobs whose schedules are evaluated in the same way."""

    rows: Whole
    """Indices of the jobs in the instance."""

    def best(self, prices: Prices) -> tuple[Whole, int]:
        """Return the jobs' best schedules (by jobs and steps), and the sum of value minus price."""
        ...

    is_separable: bool
    """True if the value of a step does not depend on the other steps."""

    def within(self, prices: Prices, slack: int, most: int) -> list[Whole | None]:
        """Return for each job all schedules that lose at most ``slack`` against its best.

        The prices are ``prices``. The result of a job is None if it has more than ``most`` such
        schedules. Of two schedules with equal value, only the one with fewer nodes is returned.
        """
        ...


class EverySchedule:
    """Jobs with the same counts, each with the value of every schedule that it could have."""

    is_separable = False

    def __init__(self, tables: Tables, rows: Whole) -> None:
        self.rows = rows
        size = int((~tables.absent[rows[0]]).sum())
        self._extra = tables.extra[rows[0], :size]
        self._steps, self._size = tables.num_steps, size
        progress = tables.progress[rows, None, :size].astype(np.int32)
        done: NDArray[np.int32] = np.zeros((len(rows), 1), np.int32)
        area: NDArray[np.int32] = np.zeros((len(rows), 1), np.int32)
        for _ in range(tables.num_steps):
            done = done[:, :, None] + progress
            np.minimum(done, np.int32(tables.unit), out=done)
            area = (area[:, :, None] + done).reshape(len(rows), -1)
            done = done.reshape(len(rows), -1)
        self._values = area
        self._net = np.empty_like(area)
        self._range = np.arange(len(rows))

    def best(self, prices: Prices) -> tuple[Whole, int]:
        """Return the best schedules, see ``Block``; ties go to the first schedule."""
        net = self._net_values(prices)
        chosen = net.argmax(1)
        return self.schedules(chosen), int(net[self._range, chosen].sum(dtype=np.int64))

    def within(self, prices: Prices, slack: int, most: int) -> list[Whole | None]:
        """Return all schedules near the best; see ``Block``."""
        net = self._net_values(prices)
        open_ = (net >= net.max(1)[:, None] - slack) & self._useful()
        return [
            self.schedules(np.flatnonzero(one)) if count <= most else None
            for one, count in zip(open_, open_.sum(1).tolist(), strict=True)
        ]

    def _useful(self) -> NDArray[np.bool_]:
        """Return whether each schedule has more value than with fewer nodes in any single step."""
        shape = (len(self.rows), *[self._size] * self._steps)
        values = self._values.reshape(shape)
        useful = np.ones(shape, np.bool_)
        for axis in range(1, self._steps + 1):
            less = np.maximum.accumulate(values, axis)
            more = np.moveaxis(useful, axis, 0)[1:]
            more &= np.moveaxis(values, axis, 0)[1:] > np.moveaxis(less, axis, 0)[:-1]
        return useful.reshape(self._values.shape)

    def _net_values(self, prices: Prices) -> NDArray[np.int32]:
        """Return value minus price of every schedule; the next call overwrites the array."""
        cost: Whole = np.zeros(1, np.int64)
        for price in prices:
            cost = (cost[:, None] + price * self._extra).ravel()
        dear = np.minimum(cost, _TOO_DEAR).astype(np.int32)
        return np.subtract(self._values, dear, out=self._net)

    def schedules(self, numbers: Whole) -> Whole:
        """Return the choices by steps of the schedules with these numbers."""
        powers = self._size ** np.arange(self._steps - 1, -1, -1)
        choices: Whole = numbers[:, None] // powers % self._size
        return choices


class EveryStep:
    """Jobs that cannot finish within the horizon.

    The work of a step counts from that step to the end, independently of other steps. So each step
    is evaluated separately.
    """

    is_separable = True

    def __init__(self, tables: Tables, rows: Whole) -> None:
        self.rows = rows
        self._extra = tables.extra[rows]
        self._worth = np.where(tables.absent[rows], np.int64(-_TOO_DEAR), tables.progress[rows])
        self._steps = tables.num_steps
        self._range = np.arange(len(rows))

    def best(self, prices: Prices) -> tuple[Whole, int]:
        """Return the best schedules, see ``Block``; ties go to the fewest nodes."""
        chosen = np.empty((len(self.rows), self._steps), np.int64)
        total = 0
        for step, price in enumerate(prices):
            net = (self._steps - step) * self._worth - price * self._extra
            chosen[:, step] = net.argmax(1)
            total += int(net[self._range, chosen[:, step]].sum())
        return chosen, total

    def within(self, prices: Prices, slack: int, most: int) -> list[Whole | None]:
        """Return all schedules near the best; see ``Block``."""
        losses = []
        for step, price in enumerate(prices):
            net = (self._steps - step) * self._worth - price * self._extra
            losses.append(net.max(1)[:, None] - net)
        return [
            self._within([loss[row].tolist() for loss in losses], slack, most)
            for row in range(len(self.rows))
        ]

    @staticmethod
    def _within(losses: list[list[int]], slack: int, most: int) -> Whole | None:
        """Return schedules of one job, from the loss of each choice of each step."""
        partial: list[tuple[tuple[int, ...], int]] = [((), 0)]
        for loss in losses:
            partial = [
                ((*schedule, choice), lost + more)
                for schedule, lost in partial
                for choice, more in enumerate(loss)
                if lost + more <= slack
            ]
            if len(partial) > most:  # every partial schedule has at least one completion
                return None
        return np.array([schedule for schedule, _ in partial])


def blocks(tables: Tables) -> list[Block]:
    """Return all jobs of an instance, in blocks."""
    separate = tables.progress.max(1) * tables.num_steps <= tables.unit
    found: list[Block] = []
    if separate.any():
        found.append(EveryStep(tables, np.flatnonzero(separate)))
    together = np.flatnonzero(~separate)
    if len(together):
        keys = np.where(tables.absent[together], -1, tables.extra[together])
        _, group = np.unique(keys, axis=0, return_inverse=True)
        found += [
            EverySchedule(tables, together[group == number]) for number in range(group.max() + 1)
        ]
    return found
