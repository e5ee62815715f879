"""Means with intervals over repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

MIN_TRIALS = 5
"""Fewest trials for which an interval is given."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over trials; ``half_width`` of its interval is None below ``MIN_TRIALS``."""

    mean: float
    num_trials: int
    half_width: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and its 95% confidence interval by Student's t.

    Raises:
        ValueError: no values.
    """
    count = len(values)
    if count == 0:
        raise ValueError("no values to estimate a mean from")
    mean = fmean(values)
    if count < MIN_TRIALS:
        return Estimate(mean, count, None)
    half_width = t_quantile(0.5 + CONFIDENCE / 2, count - 1) * stdev(values) / count**0.5
    return Estimate(mean, count, half_width)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t by its expansion around the normal one.

    Source: Abramowitz and Stegun, 26.7.5. Right to 0.001 from 4 degrees of freedom on for
    the 0.975 quantile.
    """
    z = NormalDist().inv_cdf(probability)
    n = float(degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
