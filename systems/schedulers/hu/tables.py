"""Tables of an instance in whole numbers, so that sums do not depend on their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systems.schedulers.hu.instance import Instance

Whole = NDArray[np.int64]
MOST_WORTH = 1 << 28
"""Approximate upper limit of the value of any job's schedule."""
_FINEST = 1 << 50
NEVER = -(1 << 50)
"""Value of a choice that a job does not have."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Jobs by rows, their choices by columns; shorter rows are filled up on the right."""

    unit: int
    """Integer that represents 1: one job done, for one step."""
    extra: Whole
    """Nodes of a choice beyond those of the job's first choice, which it holds in any case."""
    progress: Whole
    """Progress in multiples of 1 / ``unit``, at most ``unit``.

    It is rounded up, so that the value of no real plan exceeds its value in the tables.
    """
    absent: NDArray[np.bool_]
    """True where a job has no such choice."""
    num_extra: int
    """Nodes beyond the first choices of all jobs."""
    num_steps: int

    @classmethod
    def of(cls, instance: Instance) -> Tables:
        """Return the tables of an instance, as precise as 32 bits allow."""
        shape = len(instance.jobs), max(len(job.counts) for job in instance.jobs)
        extra, progress = np.zeros(shape, np.int64), np.zeros(shape)
        absent = np.ones(shape, np.bool_)
        for row, job in enumerate(instance.jobs):
            size = len(job.counts)
            extra[row, :size] = job.counts
            extra[row, :size] -= job.counts[0]
            progress[row, :size] = job.progress
            absent[row, :size] = False
        steps = instance.num_steps
        worth = min(float(steps), float(progress.max()) * steps * (steps + 1) / 2)
        unit = int(min(MOST_WORTH / worth, _FINEST)) if worth > 0 else 1
        fixed = np.minimum(np.ceil(progress * unit), unit).astype(np.int64)
        num_extra = instance.num_nodes - sum(job.counts[0] for job in instance.jobs)
        return cls(unit, extra, fixed, absent, num_extra, instance.num_steps)

    def used(self, choices: Whole) -> Whole:
        """Return the extra nodes of all jobs together in each step; ``choices`` by jobs and
        steps."""
        held: Whole = np.take_along_axis(self.extra, choices, 1).sum(0)
        return held

    def step_worth(self, choices: Whole, step: int) -> Whole:
        """Return the value of each job for each choice in one step, with the other steps
        unchanged."""
        held = np.take_along_axis(self.progress, choices, 1)
        done: Whole = np.zeros((len(held), 1), np.int64)
        area: Whole = np.zeros((len(held), 1), np.int64)
        for other in range(self.num_steps):
            more = self.progress if other == step else held[:, other : other + 1]
            done = np.minimum(self.unit, done + more)
            area = area + done
        area[self.absent] = NEVER
        return area
