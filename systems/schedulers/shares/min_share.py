"""Minimum satisfactory shares: the least resources with which each job meets its deadline.

The module computes with numbers only: time in time slots, work in any unit.
Source: Gu et al., "ElasticFlow", ASPLOS 2023, section 4.1, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from harness.contracts.frozen import frozen
from systems.schedulers.common.sizes import Levels
from systems.schedulers.shares.free_over_time import FreeOverTime, Ints, Share

Floats: TypeAlias = npt.NDArray[np.float64]
_N = TypeVar("_N", np.float64, np.int64)


@frozen
class Demand:
    """Work and deadline of one job."""

    levels: Levels
    need: float
    """Remaining work, above 0."""
    end: int
    """First time slot that is too late; ignored for a job without a deadline."""
    order: tuple[float, str] = (0.0, "")
    """Tie-breaker: the smaller value comes first."""


@dataclass(frozen=True, slots=True)
class Uncapped:
    """Smallest share of every job if it were alone, one array element per job (progressive
    filling).

    A job has ``high`` slots in its last ``raised`` time slots and ``low`` slots in the earlier
    ones. The fields come from a closed form.
    """

    level: Ints
    """Level with ``high`` slots; -1 if even all slots do not suffice, and then the other fields are
    0."""
    raised: Ints
    low: Ints
    """Slots on the level below ``level``."""
    high: Ints
    """Slots on ``level``."""
    usage: Ints
    """Slot time of the share: slots times time slots."""


@lru_cache(maxsize=64)
def _padded(kinds: tuple[Levels, ...], num_slots: int) -> tuple[Ints, Floats]:
    """Return counts and rates of these kinds of jobs, one row each, padded to the longest row.

    The result is cached because the same few kinds recur in most decisions.
    """
    width = max((len(kind.counts) for kind in kinds), default=1)
    counts = np.zeros((len(kinds), width), np.int64)
    rates = np.zeros((len(kinds), width))
    for row, kind in enumerate(kinds):
        within = sum(count <= num_slots for count in kind.counts)
        counts[row, :within] = kind.counts[:within]
        counts[row, within:] = kind.counts[within - 1]
        rates[row, :within] = kind.rates[:within]
        rates[row, within:] = kind.rates[within - 1]
    return counts, rates


class Tables:
    """Rates and counts of many jobs, one row each, padded to the longest row."""

    def __init__(self, levels: Sequence[Levels], num_slots: int) -> None:
        """Build the rows; levels with more than ``num_slots`` slots are left out."""
        # All jobs share few Levels objects, so identity replaces a costly comparison of values.
        ids = [*map(id, levels)]
        kinds = dict(zip(ids, levels, strict=True))
        numbers = dict(zip(kinds, range(len(kinds)), strict=True))
        rows = [*map(numbers.__getitem__, ids)]
        counts, rates = _padded(tuple(kinds.values()), num_slots)
        self.counts: Ints = counts[rows]
        self.rates: Floats = rates[rows]

    def uncapped(self, need: Floats, times: Ints) -> Uncapped:
        """Return the smallest share of each job that has ``times`` time slots and the cluster to
        itself."""
        every = np.arange(len(need))
        does = self.rates * times[:, None] >= need[:, None]
        possible = does.any(axis=1)
        level = does.argmax(axis=1)
        below = np.maximum(level - 1, 0)
        low_rate = self.rates[every, below]
        gain = self.rates[every, level] - low_rate
        missing = need - times * low_rate
        raised = np.ceil(np.divide(missing, gain, out=np.zeros_like(gain), where=gain > 0.0))
        raised = np.where(level > 0, np.clip(raised, 1, np.maximum(times, 1)), 0).astype(np.int64)
        low = np.where(possible, self.counts[every, below], 0)
        high = np.where(possible, self.counts[every, level], 0)
        usage = low * (times - raised) + high * raised
        return Uncapped(np.where(possible, level, -1), raised, low, high, usage)


class SharePlan:
    """Shares of several jobs; in a filled plan they fit into the cluster together.

    Most jobs have the share that they would have alone, which a few numbers describe. A job with a
    different share, because other jobs limit it, is in ``capped``. ``fill_all`` builds and fills a
    plan.
    """

    def __init__(
        self,
        demands: Sequence[Demand],
        start: int,
        num_slots: int,
        known: tuple[Floats, Ints, Uncapped] | None = None,
    ) -> None:
        """Prepare a plan that is not yet filled.

        ``known``: need, end and share alone of every job, if the caller has computed them already.
        """
        self.demands = demands
        self.start = start
        self.num_slots = num_slots
        self._tables: Tables | None = None
        if known is None:
            need = np.array([demand.need for demand in demands], np.float64)
            end = np.maximum(start, np.array([demand.end for demand in demands], np.int64))
            self._tables = Tables([demand.levels for demand in demands], num_slots)
            known = need, end, self._tables.uncapped(need, end - start)
        self.need, self.end, self.alone = known
        self.switch: Ints = self.end - self.alone.raised
        """First time slot on the higher level, for a job with the share that it would have
        alone."""
        self.capped: dict[int, Share] = {}
        """Shares that differ from the share alone, by index."""
        self.missed: list[int] = []
        """Indices of jobs without a share, because no share would meet the deadline."""
        self._free: FreeOverTime | None = None

    @property
    def tables(self) -> Tables:
        """Rates and counts of the jobs."""
        if self._tables is None:
            self._tables = Tables([demand.levels for demand in self.demands], self.num_slots)
        return self._tables

    @property
    def now(self) -> Ints:
        """Slots of every job in the first time slot of the plan."""
        counts = np.where(self.switch > self.start, self.alone.low, self.alone.high)
        counts[self.missed] = 0
        for index, share in self.capped.items():
            counts[index] = share.counts[0]
        return counts

    @property
    def usage(self) -> Ints:
        """Slot time of every job: slots times time slots."""
        usage = self.alone.usage.copy()
        usage[self.missed] = 0
        for index, share in self.capped.items():
            usage[index] = share.usage
        return usage

    @property
    def free(self) -> FreeOverTime:
        """Slots over time that all the shares leave free."""
        if self._free is None:
            self._free = self._left_by(len(self.demands))
        return self._free

    def share(self, index: int) -> Share:
        """Return the share of one job."""
        if index in self.capped:
            return self.capped[index]
        if index in self.missed:
            return two_levels(self.start, self.start, self.start, 0, 0)
        low, high = int(self.alone.low[index]), int(self.alone.high[index])
        return two_levels(self.start, int(self.switch[index]), int(self.end[index]), low, high)

    def short_of(self, counts: Ints) -> int | None:
        """Return the first time slot in which some job's share exceeds ``counts``, its slots now.

        The result is None if there is no such time slot.
        """
        later = (self.alone.high > counts) & (self.switch > self.start)
        later[self.missed] = False
        later[list(self.capped)] = False
        first = [int(self.switch[later].min())] if later.any() else []
        for index, share in self.capped.items():
            more = np.flatnonzero(share.counts > counts[index])
            first += share.starts[more[:1]].tolist()
        return min(first, default=None)

    def next_to(self, demand: Demand, place: int) -> SharePlan:
        """Return an unfilled plan of the same jobs and another job at index ``place``."""
        one = SharePlan([demand], self.start, self.num_slots)

        def put(own: npt.NDArray[_N], other: npt.NDArray[_N]) -> npt.NDArray[_N]:
            return np.concatenate([own[:place], other, own[place:]])

        mine, its = self.alone, one.alone
        alone = Uncapped(
            put(mine.level, its.level),
            put(mine.raised, its.raised),
            put(mine.low, its.low),
            put(mine.high, its.high),
            put(mine.usage, its.usage),
        )
        demands = [*self.demands[:place], demand, *self.demands[place:]]
        known = put(self.need, one.need), put(self.end, one.end), alone
        return SharePlan(demands, self.start, self.num_slots, known)

    def fill(self, skip: bool) -> bool:
        """Fill the shares in the order of the jobs; return whether all fit (see ``fill_all``)."""
        self.capped = {}
        self.missed = np.flatnonzero(self.alone.level < 0).tolist()
        if self.missed and not skip:
            return False
        count = len(self.demands)
        if not count or self._used_by(count)[1].max() <= self.num_slots:
            return True
        # As long as all jobs fit, each has the share that it would have alone. The number of jobs
        # that fit is found by bisection.
        fitting = self._num_fitting()
        free = self._free = self._left_by(fitting)
        for index in range(fitting, count):
            if self.alone.level[index] > 0 and not self._fill_one(index, free):
                if not skip:
                    return False
                self.missed.append(index)
        return True

    def keep(self, shares: Sequence[Share]) -> bool:
        """Adopt each of these shares that still does its job's work; return whether they fit.

        All other jobs get shares of the remaining slots, or are added to ``missed``.
        """
        self.capped, self.missed = {}, []
        free = self._free = FreeOverTime.constant(self.start, self.num_slots, 4 * len(shares))
        behind = []
        for index, share in enumerate(shares):
            demand = self.demands[index]
            if share.work(demand.levels) >= demand.need:
                self.capped[index] = share
                free.take(share)
            else:
                behind.append(index)
        if free.least(self.start, max(self.start + 1, int(self.end.max()))) < 0:
            return False
        for index in behind:
            demand, end = self.demands[index], int(self.end[index])
            found = free.fill(demand.levels, demand.need, self.start, end)
            if found is None:
                self.missed.append(index)
            else:
                self.capped[index] = found
                free.take(found)
        return True

    def _fill_one(self, index: int, free: FreeOverTime) -> bool:
        """Give one job its share of the free slots; return whether the share meets its deadline."""
        start, end, switch = self.start, int(self.end[index]), int(self.switch[index])
        low, high = int(self.alone.low[index]), int(self.alone.high[index])
        if free.least(switch, end) >= high and (
            low == 0 or switch == start or free.least(start, switch) >= low
        ):
            free.take_range(switch, end, high)
            if low and switch > start:
                free.take_range(start, switch, low)
            return True
        share = free.fill(self.demands[index].levels, float(self.need[index]), start, end)
        if share is None:
            return False
        free.take(share)
        self.capped[index] = share
        return True

    def _left_by(self, count: int) -> FreeOverTime:
        """Return the slots that the first ``count`` jobs leave free, each with its share alone."""
        starts, used = self._used_by(count)
        return FreeOverTime(starts, self.num_slots - used, 3 * len(self.demands))

    def _used_by(self, count: int) -> tuple[Ints, Ints]:
        """Return the slots that the first ``count`` jobs use over time: starts of pieces, and
        counts."""
        low, high = self.alone.low[:count], self.alone.high[:count]
        times = np.concatenate([[self.start], self.switch[:count], self.end[:count]])
        steps = np.concatenate([[low.sum()], high - low, -high])
        order = times.argsort(kind="stable")
        times, used = times[order], steps[order].cumsum()
        is_last = np.ones(len(times), np.bool_)
        np.not_equal(times[1:], times[:-1], out=is_last[:-1])
        return times[is_last], used[is_last]

    def _num_fitting(self) -> int:
        """Return how many jobs, from the first, fit together, each with its share alone.

        All jobs together must not fit; ``fill`` checks that before.
        """
        low, high, count = self.alone.low, self.alone.high, len(self.demands)
        # At the same time slot, ends come before starts. Otherwise the running sum would have peaks
        # that no time slot has.
        order = np.concatenate([self.end, self.switch]).argsort(kind="stable")
        steps = np.concatenate([-high, high - low])[order]
        job = order % count
        from_start = low.cumsum()
        fitting, too_many = 0, count
        while too_many - fitting > 1:
            middle = (fitting + too_many) // 2
            most = steps[job < middle].cumsum().max(initial=0)
            if from_start[middle - 1] + most <= self.num_slots:
                fitting = middle
            else:
                too_many = middle
        return fitting


def two_levels(start: int, switch: int, end: int, low: int, high: int) -> Share:
    """Return a share of ``low`` slots until ``switch``, then of ``high`` slots until ``end``."""
    if switch <= start:
        return Share(np.array([start]), np.array([high]), end)
    return Share(np.array([start, switch]), np.array([low, high]), end)


def fill_all(
    demands: Sequence[Demand], start: int, num_slots: int, *, skip: bool = False
) -> SharePlan | None:
    """Fill the shares of all jobs one after another (Algorithm 1).

    Args:
        demands: the jobs, earliest deadline first.
        start: the present time slot, the first that can be used.
        num_slots: slots of the cluster.
        skip: leave out a job that cannot meet its deadline together with the jobs before it, and
            continue. Otherwise there is no plan in that case.

    Returns:
        The plan, or None if a job cannot meet its deadline and ``skip`` is not set.
    """
    plan = SharePlan(demands, start, num_slots)
    return plan if plan.fill(skip) else None
