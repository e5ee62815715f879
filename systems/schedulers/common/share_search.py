"""Search for the shares of a cluster with the best power mean of speed-ups: genetic, or exact.

A share is a number of slots for each job. ``values[j][c]`` is the value of ``c`` slots to job
``j``. The loss to be minimised is the sum of ``values ** power`` over the jobs for ``power`` below
0, and minus that sum above. It orders shares as the power mean does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

LEAST_VALUE = 1e-3
"""Smallest value of any share to a job.

Without this bound, a single job without slots would make all shares equal.
"""


def losses(values: Floats, power: float) -> Floats:
    """Return the loss of every count of every job; forbidden counts have infinite loss."""
    sign = 1.0 if power < 0.0 else -1.0
    with np.errstate(invalid="ignore"):
        loss = sign * np.maximum(values, LEAST_VALUE) ** power
    return np.where(np.isnan(values), np.inf, loss)


def exact_shares(loss: Floats, num_slots: int) -> list[int]:
    """Return the shares with the least sum of losses, by dynamic programming.

    Among equal sums, jobs get fewer slots.

    Args:
        loss: by job and count; 0 slots must be possible for all.
        num_slots: slots in all.
    """
    best = np.zeros(num_slots + 1)
    choices = []
    for row in loss:
        counts = range(min(int(np.flatnonzero(np.isfinite(row))[-1]), num_slots) + 1)
        table = np.full((len(counts), num_slots + 1), np.inf)
        for count in counts:
            table[count, count:] = best[: num_slots + 1 - count] + row[count]
        choice = table.argmin(axis=0)
        choices.append(choice)
        best = table[choice, np.arange(num_slots + 1)]
    left, shares = num_slots, []
    for choice in reversed(choices):
        shares.append(int(choice[left]))
        left -= shares[-1]
    return shares[::-1]


@dataclass(frozen=True, slots=True)
class Genetic:
    """Search by mutation, crossover and tournaments in a population of shares."""

    population: int
    generations: int

    def search(self, loss: Floats, num_slots: int, seeds: Ints, rng: np.random.Generator) -> Ints:
        """Return the final population, best first; its first row is the result.

        In each generation:
        - Two parents are chosen, each the better of two drawn shares.
        - A child takes the jobs before a drawn position from one parent, and the others from the
          second.
        - Every job of a child gets a drawn count with probability 1 / jobs.
        - A child over the capacity is cut to it; the last jobs of a drawn order lose first.
        - The best of the old and new shares survive, without duplicates.

        Args:
            loss: by job and count.
            num_slots: slots in all.
            seeds: shares to begin with, one row each, at least one; made to fit first.
            rng: random generator of all draws.
        """
        num_jobs, width = loss.shape
        below = np.where(np.isfinite(loss), np.arange(width), 0)
        below = np.maximum.accumulate(below, axis=1)  # the largest allowed count up to each
        most = below[:, -1]
        states = _fit(np.minimum(seeds, width - 1), below, num_slots, rng)
        value = _value(states, loss)
        marks = rng.integers(1 << 40, size=num_jobs)  # hash shares by one product
        for _ in range(self.generations):
            drawn = rng.integers(len(states), size=(2, self.population, 2))
            better = value[drawn].argmin(axis=2)
            parents = np.take_along_axis(drawn, better[..., None], axis=2)[..., 0]
            cut = rng.integers(num_jobs + 1, size=(self.population, 1))
            children = np.where(np.arange(num_jobs) < cut, states[parents[0]], states[parents[1]])
            mutates = rng.random(children.shape) < 1.0 / num_jobs
            children = np.where(mutates, rng.integers(most + 1, size=children.shape), children)
            children = _fit(children, below, num_slots, rng)
            states = np.concatenate([states, children])
            value = np.concatenate([value, _value(children, loss)])
            distinct = np.unique(states @ marks, return_index=True)[1]
            distinct.sort()
            keep = distinct[value[distinct].argsort(kind="stable")][: self.population]
            states, value = states[keep], value[keep]
        return states


def _value(states: Ints, loss: Floats) -> Floats:
    result: Floats = loss[np.arange(len(loss)), states].sum(axis=1)
    return result


def _fit(states: Ints, below: Ints, num_slots: int, rng: np.random.Generator) -> Ints:
    """Correct shares so that they are possible: allowed counts, and no more slots in total than
    there are.

    Jobs that come last in a drawn order lose slots first.
    """
    jobs = np.arange(states.shape[1])
    order = rng.random(states.shape).argsort(axis=1)
    wanted = np.take_along_axis(below[jobs, states], order, axis=1)
    within = np.minimum(wanted.cumsum(axis=1), num_slots)
    given = np.empty_like(within)
    np.put_along_axis(given, order, np.diff(within, axis=1, prepend=0), axis=1)
    result: Ints = below[jobs, given]
    return result
