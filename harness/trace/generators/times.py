"""Distributions of training times: log-normal above a bound, exponential below it."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

_NORMAL = NormalDist()
_EDGE = 1e-12
"""Least distance of a level from 0 and 1, where a normal distribution is unbounded."""


def log_normal_mean(mu: float, sigma: float, least: float) -> float:
    """Return the mean of a log-normal time given that it is above ``least``."""
    z = (math.log(least) - mu) / sigma
    above, shifted = _NORMAL.cdf(-z), _NORMAL.cdf(sigma - z)
    return math.exp(mu + sigma**2 / 2) * shifted / above if above > 0 and shifted > 0 else least


def log_normal_above(level: float, mu: float, sigma: float, least: float) -> float:
    """Return the quantile ``level`` of a log-normal time given that it is above ``least``."""
    below = _NORMAL.cdf((math.log(least) - mu) / sigma)
    level = below + (1.0 - below) * level
    return math.exp(mu + sigma * _NORMAL.inv_cdf(min(max(level, _EDGE), 1.0 - _EDGE)))


def exponential_mean(scale: float, most: float) -> float:
    """Return the mean of an exponential time given that it is below ``most``."""
    return scale - most / math.expm1(most / scale) if most / scale < 700 else scale


def exponential_below(level: float, scale: float, most: float) -> float:
    """Return the quantile ``level`` of an exponential time given that it is below ``most``."""
    return -scale * math.log1p(math.expm1(-most / scale) * level)


def root(function: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Find the argument at which an increasing function has this value, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < value else (low, middle)
    return (low + high) / 2
