"""Overhead from the periods of steps: pure functions.

A round gives one ratio: the backend's step over the geometric mean of the two plain programs' steps
in the same round. A trial's ratio is the median over its rounds, which tolerates other load on the
machine in some of them. An estimate is the geometric mean over trials, with the central 95% of the
same mean over trials drawn with replacement (percentile bootstrap). The noise is estimated in the
same way from the second plain program over the first, which are equal.

Equivalence is judged by two one-sided t tests on the logarithms of the trials' ratios, at 5% in
all. If the tests are repeated as trials are added, each look spends an equal share of the 5%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from harness.bench.overhead.trials import Kind
from harness.metrics.statistics import Equivalence, equivalence

RESAMPLES = 10_000
TARGET = 1.01
"""Upper bound for a step through the project over a plain step."""

ALPHA = 0.05
"""Probability of a false verdict of equivalence, over all looks."""

OfTrial = Mapping[str, float]
"""Numbers of a trial: ``plain_s``, a plain step; ``ratio``, the backend's step over a plain one;
``noise``, one plain step over the other."""
CENTRES: Mapping[str, Callable[[Sequence[float]], float]] = {"median": median, "mean": fmean}
"""Functions that turn the steps of a turn, and then the logarithms of a trial's rounds, into one
number. The median is steady. The mean also includes costs that do not occur in every step (flushing
logs, sampling the machine)."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio over trials, with its interval; a single trial has none."""

    value: float
    low: float | None
    high: float | None

    def verdict(self) -> str:
        """Return ``yes`` if the target is met, ``no`` if it is missed, else ``undecided``.

        It is undecided if the interval contains the target, or if there is no interval.
        """
        if self.low is None or self.high is None:
            return "undecided"
        return "yes" if self.high < TARGET else "no" if self.low >= TARGET else "undecided"


def of_trial(rounds: Sequence[Mapping[Kind, Sequence[float]]], centre: str) -> dict[str, float]:
    """Return the numbers of a trial, the values of ``OfTrial``.

    Args:
        rounds: for each round, the periods of each program's steps, seconds.
        centre: key of ``CENTRES``.
    """
    of = CENTRES[centre]
    logs = [{kind: math.log(of(periods[kind])) for kind in Kind} for periods in rounds]
    plain = [(log[Kind.PLAIN] + log[Kind.AGAIN]) / 2 for log in logs]
    return {
        "plain_s": math.exp(of(plain)),
        "ratio": math.exp(
            of([log[Kind.BACKEND] - own for log, own in zip(logs, plain, strict=True)])
        ),
        "noise": math.exp(of([log[Kind.AGAIN] - log[Kind.PLAIN] for log in logs])),
    }


def overhead(trials: Sequence[OfTrial]) -> Ratio:
    """Return the ratio of the backend's step to a plain one."""
    return ratio([trial["ratio"] for trial in trials])


def noise(trials: Sequence[OfTrial]) -> Ratio:
    """Return the ratio of one plain step to another."""
    return ratio([trial["noise"] for trial in trials])


def extra_us(trials: Sequence[OfTrial]) -> float:
    """Return the time that the backend adds to a step, microseconds: the median over trials."""
    return median(1e6 * trial["plain_s"] * (trial["ratio"] - 1) for trial in trials)


def tests(
    trials: Sequence[OfTrial], margin: float, num_looks: int
) -> dict[str, Equivalence | None]:
    """Test the backend's ratio and the noise for equivalence; None means too few trials."""
    limit, alpha = math.log1p(margin), ALPHA / num_looks
    return {
        name: equivalence([math.log(trial[name]) for trial in trials], limit, alpha)
        for name in ("ratio", "noise")
    }


def ratio(values: Sequence[float], seed: int = 0) -> Ratio:
    """Return the geometric mean of ratios, with its bootstrap interval.

    Raises:
        ValueError: there is no ratio, or one is not above 0.
    """
    if not values or min(values) <= 0:
        raise ValueError(f"ratios are {list(values)}; at least one, all above 0, is needed")
    logs = np.log(np.asarray(values, dtype=np.float64))
    value = float(np.exp(logs.mean()))
    if len(values) == 1:
        return Ratio(value, None, None)
    drawn = np.random.default_rng(seed).choice(logs, (RESAMPLES, len(logs)))
    low, high = np.exp(np.percentile(drawn.mean(axis=1), [2.5, 97.5]))
    return Ratio(value, float(low), float(high))
