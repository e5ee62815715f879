"""Exact solution of the knapsack problem: the set of jobs that gains most on a number of slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def best_subset(gains: Sequence[float], sizes: Sequence[int], num_slots: int) -> list[int]:
    """Return the indices, ascending, of the jobs that fit and whose gains have the greatest sum.

    The method is dynamic programming; its cost grows with the number of jobs times ``num_slots``.
    Among equal sums, later jobs are left out first.

    Args:
        gains: gain of each job if it is chosen, at least 0.
        sizes: slots of each job, at least 1.
        num_slots: slots in all.
    """
    if num_slots <= 0:
        return []
    best = np.zeros(num_slots + 1)  # best sum by slots that may be used, for the jobs so far
    taken = np.zeros((len(gains), num_slots + 1), np.bool_)
    for row, gain, size in zip(taken, gains, sizes, strict=True):
        if size > num_slots:
            continue
        with_it = best[:-size] + gain
        row[size:] = with_it > best[size:]
        best[size:] = np.maximum(with_it, best[size:])
    chosen, left = [], num_slots
    for index in range(len(gains) - 1, -1, -1):
        if taken[index, left]:
            chosen.append(index)
            left -= sizes[index]
    return chosen[::-1]
