"""Shockwave's window: how many of the next rounds each job gets, and which rounds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from systems.schedulers.common.highs import INF, Model
from systems.schedulers.shockwave.counts import Budget, near_best

LEAST_PROGRESS = 1e-6
"""Lower bound of progress, since the logarithm of 0 is infinite."""


@dataclass(frozen=True, slots=True)
class Share:
    """Job of the window."""

    width: int
    """Slots that the job runs on."""
    done: float
    """Share of its work that is done, in [0, 1]."""
    per_round: float
    """Share of its work that one round does, above 0."""
    left_s: float
    """Seconds that the job still has to run."""
    weight: float = 1.0
    """Weight of its utility: its lag behind the fair finish time, to a power."""

    def utility(self, num_rounds: int) -> float:
        """Return the logarithm of the share of its work that is done after ``num_rounds``
        rounds."""
        return math.log(max(LEAST_PROGRESS, min(1.0, self.done + num_rounds * self.per_round)))

    def useful_rounds(self, num_rounds: int) -> int:
        """Return the rounds until its end, at most those of the window."""
        return min(num_rounds, math.ceil((1.0 - self.done) / self.per_round - 1e-9))


def objective(
    shares: Sequence[Share],
    counts: Sequence[int],
    num_rounds: int,
    round_s: float,
    makespan_weight: float,
) -> float:
    """Return the value of a window: Nash social welfare minus the estimated makespan.

    It is ``sum of weight * utility / (N * T) - makespan_weight * longest time left after it``, with
    N jobs and T rounds.
    """
    welfare = sum(
        one.weight * one.utility(count) for one, count in zip(shares, counts, strict=True)
    )
    left = (one.left_s - count * round_s for one, count in zip(shares, counts, strict=True))
    return welfare / (len(shares) * num_rounds) - makespan_weight * max(0.0, *left)


def best_counts(
    shares: Sequence[Share],
    num_slots: int,
    num_rounds: int,
    round_s: float,
    makespan_weight: float,
    gap: float,
) -> list[int]:
    """Return the number of rounds of each job with the greatest ``objective``, if all rounds share
    their slots.

    The objective does not depend on which rounds a job has; ``pack`` finds rounds for the counts.
    If every job can have all rounds that it can use, there is nothing to solve. Otherwise a plan by
    prices is mostly within the gap, and its bound proves it. If it is not, an integer program is
    solved, which takes a hundred times as long for many jobs.

    Args:
        shares: the jobs, in order.
        num_slots: slots of a round.
        num_rounds: rounds of the window.
        round_s: seconds of a round.
        makespan_weight: weight per second of the longest time left.
        gap: share of the optimum that may be missed.
    """
    most = [one.useful_rounds(num_rounds) for one in shares]
    budget = Budget(num_slots * num_rounds, round_s, makespan_weight)
    if sum(n * one.width for n, one in zip(most, shares, strict=True)) <= budget.room:
        return most
    scales = [one.weight / (len(shares) * num_rounds) for one in shares]
    values = [
        [scale * one.utility(count) for count in range(n + 1)]
        for scale, one, n in zip(scales, shares, most, strict=True)
    ]
    widths, left_s = [one.width for one in shares], [one.left_s for one in shares]
    plan = near_best(values, widths, left_s, budget)
    counts = plan.counts if plan.is_within(gap) else _by_program(shares, values, budget, gap)
    return _earlier_first(shares, counts)


def _by_program(
    shares: Sequence[Share], values: Sequence[Sequence[float]], budget: Budget, gap: float
) -> list[int]:
    """Return the same counts by an integer program: a binary for each job and number of rounds."""
    model = Model()
    longest = model.column(0.0, INF, cost=-budget.makespan_weight)
    used: list[tuple[int, float]] = []
    chosen = []
    for one, own in zip(shares, values, strict=True):
        binaries = [model.binary(value) for value in own]
        model.row(1.0, [(binary, 1.0) for binary in binaries], 1.0)
        used += [(binary, float(count * one.width)) for count, binary in enumerate(binaries)]
        runs = [(binary, count * budget.round_s) for count, binary in enumerate(binaries)]
        model.row(one.left_s, [(longest, 1.0), *runs], INF)
        chosen.append(binaries)
    model.row(-INF, used, float(budget.room))
    solved = model.maximise(gap, is_small=True).values
    return [max(range(len(each)), key=lambda i: solved[each[i]]) for each in chosen]


def _earlier_first(shares: Sequence[Share], counts: Sequence[int]) -> list[int]:
    """Give earlier jobs among equal jobs more rounds, since the objective leaves this open."""
    alike: dict[Share, list[int]] = defaultdict(list)
    for one, count in zip(shares, counts, strict=True):
        alike[one].append(count)
    queues = {one: iter(sorted(own, reverse=True)) for one, own in alike.items()}
    return [next(queues[one]) for one in shares]


def pack(
    shares: Sequence[Share], counts: Sequence[int], num_slots: int, num_rounds: int
) -> list[set[int]]:
    """Return the jobs of every round, by index; each job gets as many of its rounds as fit.

    Wide jobs come first, each in the rounds with the most free slots. Rounds with the greater sum
    of weights come first, because the objective leaves this open.
    """
    free = [num_slots] * num_rounds
    rounds: list[set[int]] = [set() for _ in range(num_rounds)]
    for job in sorted(range(len(shares)), key=lambda i: (-shares[i].width, -shares[i].weight, i)):
        roomy = sorted(range(num_rounds), key=lambda number: (-free[number], number))
        for number in roomy[: counts[job]]:
            if free[number] >= shares[job].width:
                free[number] -= shares[job].width
                rounds[number].add(job)
    return sorted(rounds, key=lambda jobs: -sum(shares[job].weight for job in jobs))
