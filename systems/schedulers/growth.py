"""Who gets the slots that the minimum satisfactory shares leave free.

Numbers only, as in ``min_share``. Source: Gu et al., "ElasticFlow", ASPLOS 2023, section 4.2,
Algorithm 2, and section 4.4 for jobs without a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from systems.schedulers.free_over_time import FreeOverTime, Share
from systems.schedulers.min_share import Demand, Plan, two_levels
from systems.schedulers.sizes import Levels

_Entry: TypeAlias = tuple[int, float, tuple[float, str], int, int]


@dataclass(frozen=True, slots=True)
class Grown:
    """Slots in the present time slot."""

    planned: list[int]
    """Of the jobs of the plan, in their order."""
    others: dict[int, int]
    """Of the jobs without a share that have any, by index."""


@dataclass(slots=True)
class _Growing:
    """A job of the plan with more in the present time slot than its share says."""

    level: int
    """What it has in the present time slot."""
    rest: Share
    """What it is to have from the next time slot on."""
    usage: int
    """Slots times time slots of both."""


class _Growth:
    """Algorithm 2 at work; see ``grow``."""

    def __init__(self, plan: Plan, others: Sequence[Demand], zero_first: bool) -> None:
        self.plan = plan
        self.others = others
        self.zero_first = zero_first
        self.start = plan.start
        self.now = plan.now.tolist()
        self.left = plan.num_slots - sum(self.now)
        self.other_levels: dict[int, int] = {}
        self.next_other = 0
        self.growing: dict[int, _Growing] = {}
        self.steps: dict[int, _Growing] = {}
        """What each job would have after its next step, where that is known already."""
        self.versions: dict[int, int] = {}
        self.heap: list[_Entry] = []
        self.free: FreeOverTime | None = plan.free.copy() if plan.capped else None
        """What all leave free from the next time slot on; only jobs that are capped ask."""

    def run(self) -> Grown:
        """Hand out slots one step at a time until none is left that speeds anybody up."""
        if self.left > 0:
            self._first_steps()
            self._offer_other()
        while self.left > 0 and self.heap:
            _, _, _, number, version = heappop(self.heap)
            if number < 0:
                self._grow_other(-1 - number)
            elif version == self.versions.get(number, 0):
                self._grow(number)
        counts = {index: self.others[index].levels.counts for index in self.other_levels}
        return Grown(self.now, {i: counts[i][level] for i, level in self.other_levels.items()})

    def _first_steps(self) -> None:
        """The first step of every job of the plan that it could use and that fits."""
        plan, tables = self.plan, self.plan.tables
        if not plan.demands:
            return
        every = np.arange(len(plan.demands))
        now = np.array(self.now)
        level = (tables.counts <= now[:, None]).sum(axis=1) - 1
        # Padding repeats the largest count: the level of a job that has it is its first column.
        level = np.minimum(level, tables.counts.argmax(axis=1))
        above = np.minimum(level + 1, tables.counts.shape[1] - 1)
        step = tables.counts[every, above] - now
        wanted = (step > 0) & (step <= self.left) & (tables.rates[every, level] < plan.need)
        wanted[plan.missed] = False
        need = plan.need - tables.rates[every, above]
        rest = tables.uncapped(need, np.maximum(plan.end - self.start - 1, 0))
        saved = plan.usage - tables.counts[every, above] - rest.usage
        gain = saved / np.maximum(step, 1)
        for index in np.flatnonzero(wanted).tolist():
            if index in plan.capped:
                self._offer(index)
            else:
                self._push(index, float(gain[index]), plan.demands[index].order, self.now[index])
        heapify(self.heap)

    def _push(self, number: int, gain: float, order: tuple[float, str], count: int) -> None:
        rank = 1 if count or not self.zero_first else 0
        heappush(self.heap, (rank, -gain, order, number, self.versions.get(number, 0)))

    def _grow(self, index: int) -> None:
        """Give a job of the plan its next step, if it fits."""
        after = self.steps.pop(index, None) or self._next_step(index)
        if after is None:
            return  # does not fit any more, and what is left only gets less
        count = self.plan.demands[index].levels.counts[after.level]
        if count - self.now[index] > self.left:
            return
        before = self._has(index).rest
        self.left -= count - self.now[index]
        self.now[index] = count
        self.growing[index] = after
        self._offer(index)
        if self.free is not None:
            self.free.take(before, -1)
            self.free.take(after.rest)
            for other in self.plan.capped:
                if other != index and other in self.steps:
                    self._offer(other)

    def _offer(self, index: int) -> None:
        """Put a job's next step into the queue, in place of any that is there."""
        self.versions[index] = self.versions.get(index, 0) + 1
        after = self._next_step(index)
        if after is None:
            self.steps.pop(index, None)
            return
        self.steps[index] = after
        demand = self.plan.demands[index]
        step = demand.levels.counts[after.level] - self.now[index]
        gain = (self._has(index).usage - after.usage) / step
        self._push(index, gain, demand.order, self.now[index])

    def _has(self, index: int) -> _Growing:
        """What a job has so far."""
        if index not in self.growing:
            share = self.plan.share(index)
            level = self.plan.demands[index].levels.counts.index(self.now[index])
            self.growing[index] = _Growing(level, share.from_slot(self.start + 1), share.usage)
        return self.growing[index]

    def _next_step(self, index: int) -> _Growing | None:
        """What a job would have with the next level in the present time slot; None if there is
        no such level, it does not fit, or the job ends in this time slot without it."""
        demand, has = self.plan.demands[index], self._has(index)
        levels, level = demand.levels, has.level + 1
        if level == len(levels.counts) or levels.rates[has.level] >= demand.need:
            return None
        if levels.counts[level] - self.now[index] > self.left:
            return None
        need = demand.need - levels.rates[level]
        next_slot, end = self.start + 1, max(self.start + 1, demand.end)
        if index in self.plan.capped and self.free is not None:
            around = self.free.copy()
            around.take(has.rest, -1)
            rest = around.fill(levels, need, next_slot, end, take=False)
        else:
            rest = _alone(levels, need, next_slot, end)
        assert rest is not None, "more now never takes more later"
        return _Growing(level, rest, levels.counts[level] + rest.usage)

    def _offer_other(self) -> None:
        """The first step of the next job without a share: it delays nobody and, at its least
        size, wastes nothing."""
        if self.next_other < len(self.others):
            self._push(-1 - self.next_other, 0.0, self.others[self.next_other].order, 0)
            self.next_other += 1

    def _grow_other(self, index: int) -> None:
        """Give a job without a share its next step, if it fits, and offer the one after it."""
        levels, need = self.others[index].levels, self.others[index].need
        level = self.other_levels.get(index, 0)
        if level == 0:
            self._offer_other()
        step = levels.counts[level + 1] - levels.counts[level]
        if step > self.left:
            return
        level += 1
        self.left -= step
        self.other_levels[index] = level
        if level + 1 < len(levels.counts) and levels.rates[level] < need:
            now, then = (
                need * levels.counts[at] / levels.rates[at] for at in (level, level + 1)
            )
            gain = (now - then) / (levels.counts[level + 1] - levels.counts[level])
            self._push(-1 - index, gain, self.others[index].order, levels.counts[level])


def _alone(levels: Levels, need: float, start: int, end: int) -> Share:
    """Progressive filling of a job that other jobs leave all it needs."""
    times = end - start
    if need <= 0.0:
        return two_levels(start, start, end, 0, 0)
    for level, rate in enumerate(levels.rates):
        if rate * times >= need:
            low = levels.rates[level - 1]
            raised = min(max(math.ceil((need - times * low) / (rate - low)), 1), times)
            counts = levels.counts[level - 1], levels.counts[level]
            return two_levels(start, end - raised, end, *counts)
    raise AssertionError("more now never takes more later")


def grow(plan: Plan, others: Sequence[Demand], zero_first: bool = False) -> Grown:
    """Hand out what the shares of a plan leave free in the present time slot.

    One step at a time goes to the job that saves the most slot time by it, for each slot of
    the step; among equals to the one that arrived first. A step is the next of the job's
    levels. A job gets none that it does not need to end within this time slot.

    Args:
        plan: the shares; each job keeps at least what it has in the present time slot.
        others: jobs without a share, in order of arrival. Their first step saves 0; a later
            one what the job would save if it kept this size to its end.
        zero_first: jobs that have nothing come before all others.
    """
    return _Growth(plan, others, zero_first).run()
