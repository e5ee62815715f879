"""What differs from trial to trial on a machine, drawn from the spread that a profile states."""

from __future__ import annotations

import zlib

import numpy as np

from harness.profiles import Profile, RescaleCost
from harness.trace.job import JobSpec


class Variation:
    """Factors on speeds and on costs; one object is one trial.

    A factor is log-normal with median 1, since profiles hold medians of trials. Its deviation is
    that of the profile's trials, from their range and number (``harness/profiles/spread.py``);
    where the profile does not state them, the factor is 1. Every job has a speed of its own on
    each number of slots, and every change and every end of a job its own cost.

    Draws depend on seed, repetition and what they are for, not on when they are asked for: a job
    is as fast on as many slots under any scheduler of the same trial.
    """

    def __init__(self, profile: Profile, seed: int, repetition: int) -> None:
        self._profile = profile
        self._trial = seed, repetition
        self._speeds: dict[tuple[str, int, int], float] = {}

    def of_speed(self, job: JobSpec, batch: int, num_slots: int) -> float:
        """What a job's speed at a global batch on so many slots is multiplied by."""
        key = (job.job_id, batch, num_slots)
        factor = self._speeds.get(key)
        if factor is None:
            deviation = self._profile.speed_deviation(job.workload, batch, num_slots)
            factor = self._speeds[key] = self._draw(deviation, "speed", *key)
        return factor

    def of_cost(self, cost: RescaleCost, job_id: str, which: int | str) -> float:
        """What the cost of a change of a job, or of its end, is multiplied by."""
        return self._draw(cost.deviation, "cost", job_id, which)

    def _draw(self, deviation: float, *what: int | str) -> float:
        if deviation == 0.0:
            return 1.0
        name = zlib.crc32(" ".join(map(str, what)).encode())
        return float(np.exp(deviation * np.random.default_rng([*self._trial, name]).normal()))
