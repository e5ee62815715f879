"""Throughput curves as tables, and the value of slots computed from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from harness.contracts.job import JobSpec
from harness.contracts.view import JobView, Throughput


@dataclass(frozen=True, eq=False)
class SpeedTable:
    """Throughput S(p) of one kind of job in its own range of slots."""

    rates: tuple[float, ...]
    """Samples per second on 0, 1, ... slots, up to the most that the job can use."""
    least: int
    """Fewest slots of its range."""

    @property
    def most(self) -> int:
        """Largest number of slots of its range on this cluster."""
        return len(self.rates) - 1

    @cached_property
    def worth(self) -> tuple[float, ...]:
        """Value of 0, 1, ... slots to the job, in slots: p * E(p) = S(p) / (S(p*) / p*).

        p* is the count of its range with the highest throughput per slot, so one slot is worth
        at most 1. E is the GPU efficiency of the EDL paper (section 1, footnote 1).
        """
        best = max(self.rates[count] / count for count in range(self.least, self.most + 1))
        return tuple(rate / best if best > 0.0 else 0.0 for rate in self.rates)

    def gain(self, num_slots: int) -> float:
        """Return the relative gain by one more slot, ``S(p + 1) / S(p) - 1``; 0 outside the
        range."""
        if not self.least <= num_slots + 1 <= self.most:
            return 0.0
        before, after = self.rates[num_slots], self.rates[num_slots + 1]
        if before > 0.0:
            return after / before - 1.0
        return math.inf if after > 0.0 else 0.0


class SpeedTables:
    """Tables of all jobs on a cluster; jobs of one kind share a table."""

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._tables: dict[tuple[object, ...], tuple[Throughput, SpeedTable]] = {}

    def of(self, job: JobView) -> SpeedTable:
        """Return the table of a job; the scheduler must declare THROUGHPUT."""
        curve = job.throughput
        assert curve is not None, "throughput is declared in ``needs``"
        kind = speed_kind(job.spec)
        known = self._tables.get(kind)
        if known is not None and known[0] is curve:
            return known[1]
        spec = job.spec
        most = self._num_slots if spec.max_slots is None else min(self._num_slots, spec.max_slots)
        rates = tuple(curve.samples_per_s(count) for count in range(most + 1))
        table = SpeedTable(rates, spec.min_slots)
        self._tables[kind] = curve, table
        return table


def speed_kind(spec: JobSpec) -> tuple[object, ...]:
    """Return the properties of a job that its table depends on."""
    return spec.workload, spec.global_batch, spec.min_slots, spec.max_slots
