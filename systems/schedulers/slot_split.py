"""Slots split among jobs so that the sum of their values is as large as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Worth:
    """What slots are worth to one job."""

    fewest: int
    """The fewest slots it can run on."""
    values: Floats
    """Its value on ``fewest`` slots, on one more, and so on to the most it can use; minus infinity
    where it cannot run on so many."""
    column: Floats = field(init=False, repr=False)
    """The values one below another."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.values[:, np.newaxis])


def best_split(jobs: Sequence[Worth], num_slots: int) -> list[int] | None:
    """Slots of each job, at most ``num_slots`` in all, with the greatest sum of values.

    Source: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020,
    section III-C, equations (3) to (5) and algorithm 1 with its indices corrected: the value of a
    job is looked up at the slots it gets, the rest of the table at what they leave, and a cell
    keeps the slots that gave its value. Among equal sums the last job has the fewest slots, then
    the one before, and so on, which is the order in which the algorithm tries.

    Rows are vectors, and hold only what can lead to an end: every job has its fewest slots, and
    only those beyond are split. These cells are those of the whole table, to the last bit.

    Returns:
        None where all jobs together need more slots than there are ("infeasible").
    """
    left = num_slots - sum(job.fewest for job in jobs)
    if left < 0:
        return None
    shares = [job.fewest for job in jobs]
    if left == 0:
        return shares
    # Cell s of a row: the best sum of the jobs so far with s slots beyond their fewest. Before it
    # lies minus infinity, for a job that wants more than s.
    front = max((len(job.values) for job in jobs), default=1) - 1
    width = left + 1
    rows = np.full((len(jobs) + 1, front + width), -np.inf)
    rows[0, front:] = 0.0
    sums = np.empty((front + 1, width))
    (stride, size) = rows.strides
    for number, job in enumerate(jobs):
        # The row before, moved by as many cells as the job has slots beyond its fewest.
        shape, start = (len(job.values), width), number * stride + front * size
        moved = np.ndarray(shape, rows.dtype, rows, start, (-size, size))
        found = np.add(moved, job.column, sums[: len(job.values)])
        np.maximum.reduce(found, axis=0, out=rows[number + 1, front:])
    spare = left
    for number in range(len(jobs) - 1, -1, -1):
        if spare == 0:
            break
        values, end = jobs[number].values, front + spare + 1
        before = rows[number, end - len(values) : end]
        # Adding in the order of the forward pass, so that equal sums are equal here too.
        more = int((before[::-1] + values).argmax())
        shares[number] += more
        spare -= more
    return shares
