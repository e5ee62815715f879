"""Random arrivals: a Poisson process, or a given number over a given time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

DAY_S = 86400.0


def poisson(
    rng: np.random.Generator, rates_per_s: Sequence[tuple[float, float]], until_s: float
) -> list[float]:
    """Draw arrivals of a Poisson process whose rate changes in a repeated sequence of stretches.

    Args:
        rng: the random stream.
        rates_per_s: (length of the stretch in seconds, rate in it).
        until_s: end of the process.
    """
    arrivals: list[float] = []
    start_s, number = 0.0, 0
    while start_s < until_s:
        length_s, rate = rates_per_s[number % len(rates_per_s)]
        end_s = min(start_s + length_s, until_s)
        count = int(rng.poisson(rate * (end_s - start_s)))
        arrivals += sorted(rng.uniform(start_s, end_s, count).tolist())
        start_s, number = start_s + length_s, number + 1
    return arrivals


def spread(rng: np.random.Generator, count: int, span_s: float, *, day_share: float) -> list[float]:
    """Return ``count`` arrivals over a span, sorted; the first is at 0 and the last at its end.

    Args:
        rng: the random stream.
        count: number of arrivals, at least 2.
        span_s: seconds from the first to the last arrival.
        day_share: how much the rate swings over a day. 0: the same at all hours (a Poisson process
            of known count). 1: no arrivals at the quietest moment.
    """
    inner: list[float] = []
    while len(inner) < count - 2:
        at_s = float(rng.uniform(0.0, span_s))
        density = 1.0 + day_share * math.sin(2 * math.pi * at_s / DAY_S)
        if rng.uniform(0.0, 1.0 + day_share) <= density:
            inner.append(at_s)
    return [0.0, *sorted(inner), span_s]
