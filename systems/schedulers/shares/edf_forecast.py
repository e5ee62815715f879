"""Forecast of the jobs' ends under preemptive EDF if no other job arrived: numbers only."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runner:
    """Job of a forecast."""

    counts: tuple[int, ...]
    """Slot counts that the job may have, ascending."""
    rates: tuple[float, ...]
    """Work per second on each of ``counts``."""
    work: float
    """Remaining work."""


def ends_s(jobs: Sequence[Runner], num_slots: int, now_s: float) -> list[float]:
    """Return the end of each job, in seconds; infinite for a job that never gets slots.

    Whenever a job ends, slots are handed out again in the order of the jobs. Each job takes the
    largest of its counts that fits into what is left, or none. That is what ``Edf`` does.
    """
    ends = [math.inf] * len(jobs)
    work = [job.work for job in jobs]
    waiting = list(range(len(jobs)))
    narrowest = min((job.counts[0] for job in jobs), default=0)
    while waiting:
        free = num_slots
        running: list[tuple[int, float]] = []
        for index in waiting:
            if free < narrowest:
                break
            fitting = bisect_right(jobs[index].counts, free)
            if fitting:
                free -= jobs[index].counts[fitting - 1]
                running.append((index, jobs[index].rates[fitting - 1]))
        if not running:
            break
        length_s = min(work[index] / rate for index, rate in running)
        now_s += length_s
        for index, rate in running:
            left = work[index] - rate * length_s
            # Rounding may leave a tiny remainder, which counts as done: at least one job ends here.
            if left <= 1e-12 * jobs[index].work:
                ends[index] = now_s
                waiting.remove(index)
            work[index] = left
    return ends
