"""Differences from trial to trial on a machine, drawn from the spread that a profile states."""

from __future__ import annotations

import zlib

import numpy as np

from harness.contracts.job import JobSpec
from harness.profiles import Profile, RescaleCost


class Variation:
    """Random factors on speeds and on costs; one object is one trial.

    A factor is log-normal with median 1, because profiles hold medians of trials. Its deviation is
    that of the profile's trials, from their range and number (``harness/profiles/spread.py``).
    Without such data in the profile the factor is 1. Every job has its own speed on each number of
    slots. Every change and every end of a job has its own cost.

    A draw depends on seed, repetition and purpose, not on the order of draws. So a job has the same
    speed on the same number of slots under every scheduler of a trial.
    """

    def __init__(self, profile: Profile, seed: int, repetition: int) -> None:
        self._profile = profile
        self._trial = seed, repetition
        self._speeds: dict[tuple[str, int, int], float] = {}

    def of_speed(self, job: JobSpec, batch: int, num_slots: int) -> float:
        """Return the factor on a job's speed at a global batch on this number of slots."""
        key = (job.job_id, batch, num_slots)
        factor = self._speeds.get(key)
        if factor is None:
            deviation = self._profile.speed_deviation(job.workload, batch, num_slots)
            factor = self._speeds[key] = self._draw(deviation, "speed", *key)
        return factor

    def of_cost(self, cost: RescaleCost, job_id: str, which: int | str) -> float:
        """Return the factor on the cost of a job's change, or of its end."""
        return self._draw(cost.deviation, "cost", job_id, which)

    def _draw(self, deviation: float, *what: int | str) -> float:
        if deviation == 0.0:
            return 1.0
        name = zlib.crc32(" ".join(map(str, what)).encode())
        return float(np.exp(deviation * np.random.default_rng([*self._trial, name]).normal()))
