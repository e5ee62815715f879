"""Configurations of a job on given numbers of devices, and the plan of a configuration.

A configuration says how many devices of each type there are, and how many executors and virtual
workers run on each (EasyScale, section 3.4.2). Among configurations with the same devices, the one
that wastes least is also the fastest, since ``perf`` is what the devices could do without
``waste``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

from harness.profiles.virtual_workers import spread
from systems.schedulers.easyscale_plans.model import Configuration, Counts, Device, evaluate

Scales = Literal["every", "whole"]
_EXACT = 1e-9
"""Relative error up to which t * c_i counts as the nearest whole number."""


@dataclass(frozen=True)
class Planner:
    """Planner of a job: all properties on which its plans depend."""

    devices: tuple[Device, ...]
    max_p: int
    """Virtual workers of the job."""
    max_waste_percent: float = 30.0
    """Configurations with more waste_norm are excluded (30 in the paper)."""
    scales: Scales = "every"
    """Values of t that are tried in A_i = floor or ceil of t c_i, c_i = C_i over the slowest C.

    The paper leaves them open. ``every``: all at which a floor changes, which finds the fastest.
    ``whole``: 1 to maxP; the slowest type has t, and the others the nearest whole numbers.
    """

    def best(self, nums: Counts) -> Configuration | None:
        """Return the fastest configuration on these devices, ignoring waste; None: there is none.

        Ties: the fewest executors.
        """
        return _best(self.devices, self.max_p, self.scales, nums)

    def configurations(self, choices: Iterable[Counts]) -> list[Configuration]:
        """Return the best configuration for each choice of devices, except those that waste too
        much."""
        found = (self.best(nums) for nums in choices)
        limit = self.max_waste_percent * (1 + _EXACT)
        return [one for one in found if one is not None and one.waste_percent <= limit]

    def virtual_workers(self, configuration: Configuration, types: Sequence[int]) -> Counts:
        """Return the plan of a configuration: the virtual workers of each slot, which sum to all of
        the job.

        No slot gets more than the configuration's number, so the step is no longer than estimated.

        Args:
            configuration: configuration on these slots.
            types: index of the device type of each slot, in rank order.
        """
        most = [configuration.executors[i] * configuration.threads[i] for i in types]
        speeds = [self.devices[i].combined(configuration.executors[i]) for i in types]
        return spread(self.max_p, speeds, most)


def choices(
    held: Counts, added: int, free: Counts, one_type: bool, exchange: bool = False
) -> Iterator[Counts]:
    """Yield every way to add ``added`` devices to those held.

    Args:
        held: devices of each type that the job has.
        added: number of devices to add.
        free: devices of each type that may be added.
        one_type: all are of one type (EasyScale_homo).
        exchange: true if the job may give devices back: one or all of each type without added
            devices.
    """
    for more in _summing_to(added, free):
        kept = [
            sorted({count, count - 1, 0} if exchange and count and not new else {count})[::-1]
            for count, new in zip(held, more, strict=True)
        ]
        for left in product(*kept):
            nums = tuple(a + b for a, b in zip(left, more, strict=True))
            if not one_type or sum(count > 0 for count in nums) <= 1:
                yield nums


def _summing_to(total: int, room: Sequence[int]) -> Iterator[Counts]:
    """Yield every tuple with this sum and no entry above its limit; more of the first types
    first."""
    if not room:
        if total == 0:
            yield ()
        return
    for count in range(max(0, min(total, room[0])), -1, -1):
        for rest in _summing_to(total - count, room[1:]):
            yield (count, *rest)


@lru_cache(maxsize=65536)
def _best(
    devices: tuple[Device, ...], max_p: int, scales: Scales, nums: Counts
) -> Configuration | None:
    used = [i for i, count in enumerate(nums) if count > 0]
    if not used or sum(nums) > max_p or min(devices[i].capability for i in used) <= 0:
        return None
    found: list[Configuration] = []
    for executors in product(*(devices[i].executors for i in used)):
        for threads in _threads(devices, max_p, scales, nums, used, executors):
            one = evaluate(
                devices, nums, _full(nums, used, executors), _full(nums, used, threads), max_p
            )
            if one is not None:
                found.append(one)
    return min(found, key=_preference, default=None)


def _preference(one: Configuration) -> tuple[float, int, Counts]:
    return -one.perf, sum(one.executors), one.threads


def _full(nums: Counts, used: Sequence[int], values: Sequence[int]) -> Counts:
    """Expand values of the types in use to all types, with 0 for unused types."""
    of_type = dict(zip(used, values, strict=True))
    return tuple(of_type.get(i, 0) for i in range(len(nums)))


def _threads(
    devices: tuple[Device, ...],
    max_p: int,
    scales: Scales,
    nums: Counts,
    used: Sequence[int],
    executors: Sequence[int],
) -> Iterator[Counts]:
    """Yield candidates for A_i of the types in use."""
    # An executor's share of its device; A_i counts the virtual workers of one executor.
    speeds = [devices[i].combined(m) / m for i, m in zip(used, executors, strict=True)]
    if scales == "whole":
        slowest = min(speeds)
        for t in range(1, max_p + 1):
            exact = [t * speed / slowest for speed in speeds]
            yield from product(*(sorted({_floor(value), _ceil(value)}) for value in exact))
        return
    # Bisect for the shortest step in which all fit, among steps that end when an executor does.
    steps = sorted({count / speed for speed in speeds for count in range(1, max_p + 1)})
    units = [nums[i] * m for i, m in zip(used, executors, strict=True)]
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        counts = [_floor(steps[middle] * speed) for speed in speeds]
        fits = min(counts) >= 1 and sum(map(_times, units, counts)) >= max_p
        low, high = (low, middle) if fits else (middle + 1, high)
    if low < len(steps):
        yield tuple(_floor(steps[low] * speed) for speed in speeds)


def _times(a: int, b: int) -> int:
    return a * b


def _floor(value: float) -> int:
    return math.floor(value * (1 + _EXACT))


def _ceil(value: float) -> int:
    return math.ceil(value * (1 - _EXACT))
