"""Goodput (throughput times statistical efficiency) and speed-ups of jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.contracts.job import JobSpec
from harness.contracts.view import Throughput


def efficiency(noise_scale: float, own_batch: int, batch: int) -> float:
    """Return the statistical efficiency of a batch, relative to the job's own batch.

    It is (phi + m0) / (phi + m), phi being the gradient noise scale in samples, and m0 the job's
    own batch. The efficiency is 1 at m0, and smaller above it.
    """
    return (noise_scale + own_batch) / (noise_scale + batch)


@dataclass(frozen=True, slots=True)
class GoodputTable:
    """Best goodput of one job on 0, 1, ... slots, and the batches that reach it."""

    goodput: tuple[float, ...]
    """Goodput in samples of the job's own batch per second; 0 outside its range of slots."""
    batches: tuple[int | None, ...]
    """Batch that reaches it; None: the job's own."""

    @property
    def most(self) -> int:
        """Largest number of slots that the job can use."""
        return len(self.goodput) - 1

    def fair(self, num_slots: float) -> float:
        """Return the goodput on ``num_slots`` slots, also for a fraction or outside the job's
        range."""
        counts = [count for count, value in enumerate(self.goodput) if value > 0.0]
        count = max((one for one in counts if one <= num_slots), default=counts[0])
        return self.goodput[count] * min(1.0, num_slots / count)


def goodput_table(
    spec: JobSpec, curve: Throughput, num_slots: int, noise_scale: float | None, num_batches: int
) -> GoodputTable:
    """Return the table of a job on a cluster of ``num_slots``.

    Args:
        spec: the job.
        curve: its throughput.
        num_slots: slots of the cluster.
        noise_scale: its gradient noise scale, samples; None: unknown, so the batch stays.
        num_batches: number of other batches of the job's range to try, in equal ratios.
    """
    least = spec.min_slots if spec.elastic else spec.requested_slots
    most = num_slots if spec.max_slots is None else min(num_slots, spec.max_slots)
    if not spec.elastic:
        most = least
    tried = _batches(spec, num_batches) if noise_scale is not None else []
    goodput, batches = [0.0] * least, [None] * least  # type: list[float], list[int | None]
    for count in range(least, most + 1):
        best: tuple[float, int | None] = (curve.samples_per_s(count), None)
        for batch in tried:
            assert noise_scale is not None
            value = curve.samples_per_s(count, batch)
            value *= efficiency(noise_scale, spec.global_batch, batch)
            if value > best[0]:
                best = value, batch
        goodput.append(best[0])
        batches.append(best[1])
    return GoodputTable(tuple(goodput), tuple(batches))


def _batches(spec: JobSpec, num_batches: int) -> list[int]:
    """Return other batches of the job's range, ascending, from its least to its largest."""
    low, high = spec.batch_range
    steps = max(num_batches - 1, 1)
    batches = {round(low * (high / low) ** (step / steps)) for step in range(steps + 1)}
    return sorted(batch for batch in batches | {low, high} if batch != spec.global_batch)


def realloc_factor(age_s: float, num_reallocations: int, delay_s: float) -> float:
    """Return the factor on a job's speed-up if its slots change once more; at least 0.

    The factor is (T - R * delta) / (T + delta). T is the job's age, R the number of times that its
    slots have changed, and delta the seconds that a change costs. Few changes are worth their cost
    for a young job, or for a job that has had many changes.
    """
    if age_s + delay_s <= 0.0 or math.isinf(age_s):
        return 1.0
    return max(0.0, (age_s - num_reallocations * delay_s) / (age_s + delay_s))
