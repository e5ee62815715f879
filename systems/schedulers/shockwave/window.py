"""Shockwave's window: how many of the next rounds each job runs in, and in which."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from systems.schedulers.hu.highs import INF, Model

LEAST_PROGRESS = 1e-6
"""Progress that counts for none at all, whose logarithm would be infinite."""


@dataclass(frozen=True, slots=True)
class Share:
    """One job of the window."""

    width: int
    """Slots that it runs on."""
    done: float
    """Share of its work that is done, in [0, 1]."""
    per_round: float
    """Share of its work that a round does, above 0."""
    left_s: float
    """Seconds that it still has to run."""
    weight: float = 1.0
    """Of its utility: what it is behind its fair finish time, powered."""

    def utility(self, num_rounds: int) -> float:
        """Logarithm of the share of its work that is done after so many rounds."""
        return math.log(max(LEAST_PROGRESS, min(1.0, self.done + num_rounds * self.per_round)))

    def useful_rounds(self, num_rounds: int) -> int:
        """Rounds until its end, at most those of the window."""
        return min(num_rounds, math.ceil((1.0 - self.done) / self.per_round - 1e-9))


def objective(
    shares: Sequence[Share],
    counts: Sequence[int],
    num_rounds: int,
    round_s: float,
    makespan_weight: float,
) -> float:
    """Nash social welfare less the estimated makespan: what a window is worth.

    ``sum of weight * utility / (N * T) - makespan_weight * longest time left after it``, N jobs
    and T rounds.
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
    """Rounds of each job with the greatest ``objective``, with all rounds' slots taken together.

    One binary for each job and number of rounds. Which rounds a job has makes no difference to
    the objective; whether they can be had is left to ``pack``. Where everybody can have all that it
    can use, there is nothing to solve.
    """
    most = [one.useful_rounds(num_rounds) for one in shares]
    if sum(n * one.width for n, one in zip(most, shares, strict=True)) <= num_rounds * num_slots:
        return most
    model = Model()
    longest = model.column(0.0, INF, cost=-makespan_weight)
    used: list[tuple[int, float]] = []
    chosen = []
    for one in shares:
        scale = one.weight / (len(shares) * num_rounds)
        counts = range(one.useful_rounds(num_rounds) + 1)
        binaries = [model.binary(scale * one.utility(count)) for count in counts]
        model.row(1.0, [(binary, 1.0) for binary in binaries], 1.0)
        used += [(b, float(count * one.width)) for b, count in zip(binaries, counts, strict=True)]
        runs = [(b, count * round_s) for b, count in zip(binaries, counts, strict=True)]
        model.row(one.left_s, [(longest, 1.0), *runs], INF)
        chosen.append(binaries)
    model.row(-INF, used, float(num_rounds * num_slots))
    values = model.maximise(gap, is_small=True).values
    found = [max(range(len(each)), key=lambda i: values[each[i]]) for each in chosen]
    return _earlier_first(shares, found)


def _earlier_first(shares: Sequence[Share], counts: Sequence[int]) -> list[int]:
    """Of jobs that are alike the earlier ones have more rounds: the program does not care."""
    alike: dict[Share, list[int]] = defaultdict(list)
    for one, count in zip(shares, counts, strict=True):
        alike[one].append(count)
    queues = {one: iter(sorted(own, reverse=True)) for one, own in alike.items()}
    return [next(queues[one]) for one in shares]


def pack(
    shares: Sequence[Share], counts: Sequence[int], num_slots: int, num_rounds: int
) -> list[set[int]]:
    """Jobs of every round, by index: as many rounds of each job's as can be had.

    Wide jobs first, each in the rounds with the most free slots. Rounds with the greater sum of
    weights come first, which the objective leaves open.
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
