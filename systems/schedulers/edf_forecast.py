"""When jobs would end under preemptive EDF if nobody else arrived: numbers only."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runner:
    """One job of a forecast."""

    counts: tuple[int, ...]
    """Slot counts it may have, ascending."""
    rates: tuple[float, ...]
    """Work per second on each."""
    work: float
    """Work that is left."""


def ends_s(jobs: Sequence[Runner], num_slots: int, now_s: float) -> list[float]:
    """When each job ends, in seconds; infinite for one that never gets slots.

    Whenever a job ends, slots are handed out anew in the order of the jobs: each takes the
    largest of its counts that is left, and none if none is. That is what ``Edf`` does.
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
            # What is left by rounding alone is done: at least one job ends here.
            if left <= 1e-12 * jobs[index].work:
                ends[index] = now_s
                waiting.remove(index)
            work[index] = left
    return ends
