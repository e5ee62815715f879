"""Split of slots among jobs with the greatest possible sum of the jobs' values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Worth:
    """Value of slots to one job."""

    fewest: int
    """Fewest slots that the job can run on."""
    values: Floats
    """Value on ``fewest`` slots, on one more, and so on to the most slots that the job can use.

    It is minus infinity for a count that the job cannot run on.
    """
    column: Floats = field(init=False, repr=False)
    """The values as a column vector."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.values[:, np.newaxis])


def best_split(jobs: Sequence[Worth], num_slots: int) -> list[int] | None:
    """Return the slots of each job, at most ``num_slots`` in all, with the greatest sum of values.

    Source: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020,
    section III-C, equations (3) to (5) and algorithm 1 with its indices corrected: the value of a
    job is looked up at the slots it gets, the rest of the table at the remaining slots, and a cell
    keeps the slots that gave its value. Among equal sums the last job has the fewest slots, then
    the job before it, and so on, as in the algorithm's own order.

    Rows are vectors and hold only cells that can lead to a solution: every job has its fewest
    slots, and only the slots beyond are split. These cells equal those of the whole table, to the
    last bit.

    Returns:
        The slots, or None if all jobs together need more slots than there are ("infeasible").
    """
    left = num_slots - sum(job.fewest for job in jobs)
    if left < 0:
        return None
    shares = [job.fewest for job in jobs]
    if left == 0:
        return shares
    # Cell s of a row: the best sum of the jobs so far with s slots beyond their fewest. The cells
    # in front are minus infinity, for a job that wants more than s.
    front = max((len(job.values) for job in jobs), default=1) - 1
    width = left + 1
    rows = np.full((len(jobs) + 1, front + width), -np.inf)
    rows[0, front:] = 0.0
    sums = np.empty((front + 1, width))
    (stride, size) = rows.strides
    for number, job in enumerate(jobs):
        # The previous row, moved by as many cells as the job has slots beyond its fewest.
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
        # Add in the order of the forward pass: another order could round equal sums differently.
        more = int((before[::-1] + values).argmax())
        shares[number] += more
        spare -= more
    return shares
