"""Distribution of the slots that the minimum satisfactory shares leave free.

The module computes with numbers only, as ``min_share`` does. Source: Gu et al., "ElasticFlow",
ASPLOS 2023, section 4.2, Algorithm 2, and section 4.4 for jobs without a guarantee.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from systems.schedulers.shares.free_over_time import FreeOverTime, Share
from systems.schedulers.shares.min_share import Demand, SharePlan, two_levels

_Entry: TypeAlias = tuple[int, float, tuple[float, str], int, int]


@dataclass(frozen=True, slots=True)
class Grown:
    """Slots of all jobs in the present time slot."""

    planned: list[int]
    """Slots of the plan's jobs, in the plan's order."""
    others: dict[int, int]
    """Slots of the jobs without a share that get slots, by index."""


class _Growth:
    """State of Algorithm 2 during one call of ``grow``.

    With more slots now, a job takes less later. For an unlimited job, two numbers describe the
    later share: a level, and the number of time slots on it. Only jobs that other jobs limit
    (``plan.capped``) must consider the free slots.
    """

    def __init__(self, plan: SharePlan, others: Sequence[Demand], zero_first: bool) -> None:
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
        """For capped jobs: slot time with the next step, and the share from the next time slot on.
        """
        self.alone: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        """Results of ``_alone`` for offered steps, by job and level; ``_grow`` uses them again."""
        self.versions: dict[int, int] = {}
        self.heap: list[_Entry] = []
        self.rests: dict[int, Share] = {}
        """Shares from the next time slot on, of jobs that have grown."""
        self.free: FreeOverTime | None = None
        """Free slots from the next time slot on, after all jobs; None without capped jobs."""

    def run(self) -> Grown:
        """Hand out slots one step at a time until no free slot speeds up any job."""
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
        """Offer the first step of every job of the plan that could use it and that fits."""
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
        """Give a job of the plan its next step, if it fits, and offer the step after it."""
        demand, level = self.plan.demands[index], self.level[index] + 1
        count = demand.levels.counts[level]
        step = count - self.now[index]
        if step > self.left:
            return  # final, because the number of free slots only falls
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
        """Return the later share of an unlimited job that has ``level`` now.

        The four numbers are slots on the lower and on the upper of two levels, total time slots,
        and time slots on the upper level.
        """
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
        """Return whether a job's next step fits and helps.

        The step is of no use to a job that ends in this time slot without it.
        """
        counts, level = demand.levels.counts, self.level[index]
        return (
            level + 1 < len(counts)
            and demand.levels.rates[level] < demand.need
            and counts[level + 1] - self.now[index] <= self.left
        )

    def _offer(self, index: int, demand: Demand) -> None:
        """Queue the next step of a job that is not capped."""
        if self._is_wanted(index, demand):
            level = self.level[index] + 1
            count = demand.levels.counts[level]
            low, high, times, raised = found = self._alone(demand, level)
            self.alone[index, level] = found
            usage = count + low * (times - raised) + high * raised
            gain = (self.usage[index] - usage) / (count - self.now[index])
            self._push(index, gain, demand.order, self.now[index])

    def _offer_capped(self, index: int) -> None:
        """Queue a capped job's next step, in place of any step that is queued."""
        demand = self.plan.demands[index]
        self.versions[index] = self.versions.get(index, 0) + 1
        self.steps.pop(index, None)
        if not self._is_wanted(index, demand):
            return
        assert self.free is not None, "a capped job needs slots"
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
        """Return the share of a job from the next time slot on."""
        if index not in self.rests:
            self.rests[index] = self.plan.share(index).from_slot(self.next_slot)
        return self.rests[index]

    def _take_instead(self, index: int, before: Share, rest: Share) -> None:
        """Replace a job's later share, and offer again the capped jobs that this affects."""
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
            # A job that fits on the same level as before is not affected.
            counts = self.plan.demands[other].levels.counts
            held = self._rest(other).extremes(first, end)
            top = share.most
            low = bisect_right(counts, min(fewest + held[0], top))
            if low != bisect_right(counts, min(most + held[1], top)):
                self._offer_capped(other)

    def _offer_other(self) -> None:
        """Offer the first step of the next job without a share.

        Its gain counts as 0: at its least size the job wastes no slot time, and it delays no other
        job.
        """
        if self.next_other < len(self.others):
            self._push(-1 - self.next_other, 0.0, self.others[self.next_other].order, 0)
            self.next_other += 1

    def _grow_other(self, index: int) -> None:
        """Give a job without a share its next step, if it fits, and offer the step after it."""
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


def grow(plan: SharePlan, others: Sequence[Demand], zero_first: bool = False) -> Grown:
    """Distribute the slots that the shares of a plan leave free in the present time slot.

    A step raises a job to its next level. One step at a time goes to the job that saves the most
    slot time per slot of the step. Ties go to the job that arrived first. A job gets no step if it
    ends within this time slot without that step.

    Args:
        plan: the shares; each job keeps at least its slots in the present time slot.
        others: jobs without a share, in order of arrival. Their first step saves 0. A later step
            saves what the job would save if it kept this size to its end.
        zero_first: jobs without slots come before all others.
    """
    return _Growth(plan, others, zero_first).run()
