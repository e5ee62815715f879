"""Who gets the slots that the minimum satisfactory shares leave free.

Numbers only, as in ``min_share``. Source: Gu et al., "ElasticFlow", ASPLOS 2023, section 4.2,
Algorithm 2, and section 4.4 for jobs without a guarantee.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from systems.schedulers.free_over_time import FreeOverTime, Share
from systems.schedulers.min_share import Demand, Plan, two_levels

_Entry: TypeAlias = tuple[int, float, tuple[float, str], int, int]


@dataclass(frozen=True, slots=True)
class Grown:
    """Slots in the present time slot."""

    planned: list[int]
    """Of the jobs of the plan, in their order."""
    others: dict[int, int]
    """Of the jobs without a share that have any, by index."""


class _Growth:
    """Algorithm 2 at work; see ``grow``.

    What a job takes later once it has more now follows from two numbers as long as it can
    have all it wants: a level, and the number of time slots on it. Only jobs that other jobs
    leave less (``plan.capped``) have to look at what is free.
    """

    def __init__(self, plan: Plan, others: Sequence[Demand], zero_first: bool) -> None:
        self.plan = plan
        self.others = others
        self.zero_first = zero_first
        self.next_slot = plan.start + 1
        self.now: list[int] = plan.now.tolist()
        self.usage: list[int] = []
        self.level: list[int] = []
        self.left = plan.num_slots - sum(self.now)
        self.other_levels: dict[int, int] = {}
        self.next_other = 0
        self.steps: dict[int, tuple[int, Share]] = {}
        """Of capped jobs: slot time with the next step, and what follows the present slot."""
        self.alone: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        """What ``_alone`` said of an offered step, by job and level: if taken, it counts again."""
        self.versions: dict[int, int] = {}
        self.heap: list[_Entry] = []
        self.rests: dict[int, Share] = {}
        """What jobs that have grown are to have from the next time slot on."""
        self.free: FreeOverTime | None = None
        """What all leave free from the next time slot on, if there are capped jobs."""

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
        level = (tables.counts < now[:, None]).sum(axis=1)
        usage = plan.usage
        self.level, self.usage = level.tolist(), usage.tolist()
        above = np.minimum(level + 1, tables.counts.shape[1] - 1)
        step = tables.counts[every, above] - now
        wanted = (step > 0) & (step <= self.left) & (tables.rates[every, level] < plan.need)
        wanted[plan.missed] = False
        capped = [index for index in plan.capped if wanted[index]]
        if capped:
            self.free = plan.free.copy()
            for index in capped:
                self._offer_capped(index)
            wanted[capped] = False
        chosen = np.flatnonzero(wanted)
        need = plan.need - tables.rates[every, above]
        rest = tables.uncapped(need, np.maximum(plan.end - self.next_slot, 0))
        saved = usage - tables.counts[every, above] - rest.usage
        gains = (saved[chosen] / step[chosen]).tolist()
        for index, gain in zip(chosen.tolist(), gains, strict=True):
            self._push(index, gain, plan.demands[index].order, self.now[index])

    def _push(self, number: int, gain: float, order: tuple[float, str], count: int) -> None:
        rank = 1 if count or not self.zero_first else 0
        heappush(self.heap, (rank, -gain, order, number, self.versions.get(number, 0)))

    def _grow(self, index: int) -> None:
        """Give a job of the plan its next step, if it fits, and offer the one after it."""
        demand, level = self.plan.demands[index], self.level[index] + 1
        count = demand.levels.counts[level]
        step = count - self.now[index]
        if step > self.left:
            return  # what is left only gets less
        rest = None
        if index in self.steps:
            self.usage[index], rest = self.steps.pop(index)
        else:
            known = self.alone.pop((index, level), None)
            low, high, times, raised = known or self._alone(demand, level)
            self.usage[index] = count + low * (times - raised) + high * raised
            if self.free is not None:
                end = self.next_slot + times
                rest = two_levels(self.next_slot, end - raised, end, low, high)
        before = self._rest(index) if rest is not None else None
        self.left -= step
        self.now[index] = count
        self.level[index] = level
        if rest is not None and before is not None:
            self._take_instead(index, before, rest)
        if index in self.plan.capped:
            self._offer_capped(index)
        else:
            self._offer(index, demand)

    def _alone(self, demand: Demand, level: int) -> tuple[int, int, int, int]:
        """What a job takes later once it has ``level`` now, if it can have all it wants: slots
        on the lower and on the upper of two levels, time slots in all and on the upper."""
        counts, rates = demand.levels.counts, demand.levels.rates
        times = max(demand.end - self.next_slot, 0)
        need = demand.need - rates[level]
        if need <= 0.0:
            return 0, 0, times, 0
        for upper, rate in enumerate(rates):
            if rate * times >= need:
                below = rates[upper - 1]
                raised = min(max(math.ceil((need - times * below) / (rate - below)), 1), times)
                return counts[upper - 1], counts[upper], times, raised
        raise AssertionError("more now never takes more later")

    def _is_wanted(self, index: int, demand: Demand) -> bool:
        """Whether a job has a next step that fits and does not end in this time slot without."""
        counts, level = demand.levels.counts, self.level[index]
        return (
            level + 1 < len(counts)
            and demand.levels.rates[level] < demand.need
            and counts[level + 1] - self.now[index] <= self.left
        )

    def _offer(self, index: int, demand: Demand) -> None:
        """Put the next step of a job that is not capped into the queue."""
        if self._is_wanted(index, demand):
            level = self.level[index] + 1
            count = demand.levels.counts[level]
            low, high, times, raised = found = self._alone(demand, level)
            self.alone[index, level] = found
            usage = count + low * (times - raised) + high * raised
            gain = (self.usage[index] - usage) / (count - self.now[index])
            self._push(index, gain, demand.order, self.now[index])

    def _offer_capped(self, index: int) -> None:
        """Put a capped job's next step into the queue, in place of any that is there."""
        demand = self.plan.demands[index]
        self.versions[index] = self.versions.get(index, 0) + 1
        self.steps.pop(index, None)
        if not self._is_wanted(index, demand):
            return
        assert self.free is not None, "a capped job wants slots"
        level = self.level[index] + 1
        need = demand.need - demand.levels.rates[level]
        held = self._rest(index)
        rest = self.free.fill(demand.levels, need, self.next_slot, held.end, held)
        assert rest is not None, "more now never takes more later"
        count = demand.levels.counts[level]
        self.steps[index] = count + rest.usage, rest
        gain = (self.usage[index] - self.steps[index][0]) / (count - self.now[index])
        self._push(index, gain, demand.order, self.now[index])

    def _rest(self, index: int) -> Share:
        """What a job is to have from the next time slot on."""
        if index not in self.rests:
            self.rests[index] = self.plan.share(index).from_slot(self.next_slot)
        return self.rests[index]

    def _take_instead(self, index: int, before: Share, rest: Share) -> None:
        """A job takes something else later: capped jobs look again at what is free."""
        assert self.free is not None, "kept while there are capped jobs"
        self.rests[index] = rest
        first, end = before.differs_from(rest)
        if first >= end:
            return
        fewest, most = self.free.extremes(first, end)
        self.free.take(before, -1)
        self.free.take(rest)
        after = self.free.extremes(first, end)
        fewest, most = min(fewest, after[0]), max(most, after[1])
        for other, (_, share) in list(self.steps.items()):
            if share.end <= first:
                continue
            # Where it fits on the same level as before, nothing has changed for it.
            counts = self.plan.demands[other].levels.counts
            held = self._rest(other).extremes(first, end)
            top = share.most
            low = bisect_right(counts, min(fewest + held[0], top))
            if low != bisect_right(counts, min(most + held[1], top)):
                self._offer_capped(other)

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
            now, then = (need * levels.counts[at] / levels.rates[at] for at in (level, level + 1))
            gain = (now - then) / (levels.counts[level + 1] - levels.counts[level])
            self._push(-1 - index, gain, self.others[index].order, levels.counts[level])


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
