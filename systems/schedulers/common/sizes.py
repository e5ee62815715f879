"""Slot counts that are worth considering for an elastic job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.contracts.job import JobSpec
from harness.contracts.view import Throughput


def useful_counts(curve: Throughput, counts: Iterable[int]) -> list[int]:
    """Return the counts, ascending, whose throughput is higher than that of every smaller count.

    The first count is always included. On a curve with dips, a count that is slower than a smaller
    count only wastes slots.
    """
    useful: list[int] = []
    best = 0.0
    for count in counts:
        rate = curve.samples_per_s(count)
        if not useful or rate > best:
            useful.append(count)
            best = rate
    return useful


def counts_within(spec: JobSpec, num_slots: int, powers_of_two: bool = False) -> list[int]:
    """Return the slot counts that a job may have on a cluster of ``num_slots``, ascending.

    With ``powers_of_two``, only powers of two are returned; a job whose range has none gets its
    least count. A job that is not elastic has its requested count only.
    """
    if not spec.elastic:
        return [spec.requested_slots]
    most = num_slots if spec.max_slots is None else min(num_slots, spec.max_slots)
    if not powers_of_two:
        return list(range(spec.min_slots, max(most, spec.min_slots) + 1))
    powers = [1 << power for power in range(most.bit_length())]
    return [count for count in powers if spec.min_slots <= count <= most] or [spec.min_slots]


@dataclass(frozen=True)
class Levels:
    """Sizes that a job may have, and its work per unit of time on each.

    Level 0 is no slots. ``counts`` and ``rates`` rise strictly from there.
    """

    counts: tuple[int, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, values in (("counts", self.counts), ("rates", self.rates)):
            rising = all(a < b for a, b in pairwise(values))
            if len(values) != len(self.counts) or values[:1] != (0,) or not rising:
                raise ValueError(f"{name} are {values}; they must begin with 0 and rise")

    @cached_property
    def counts_array(self) -> npt.NDArray[np.int64]:
        """Counts as a numpy array."""
        return np.array(self.counts)


def levels_of(
    spec: JobSpec, curve: Throughput, num_slots: int, powers_of_two: bool, unit_s: float
) -> Levels:
    """Return the levels of a job on a cluster, with its samples per ``unit_s`` seconds on each."""
    counts = useful_counts(curve, counts_within(spec, num_slots, powers_of_two))
    rates = [curve.samples_per_s(count) * unit_s for count in counts]
    return Levels((0, *counts), (0.0, *rates))
