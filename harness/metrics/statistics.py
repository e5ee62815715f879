"""Estimates with intervals, and tests of equivalence, as pure functions.

Means have Student's interval. Medians and ratios of medians have bootstrap intervals, which assume
only that trials are independent.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv, stdtr, stdtrit

MIN_TRIALS = 5
"""Fewest trials for which an interval is given."""
CONFIDENCE = 0.95
RESAMPLES = 10_000

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over trials; ``half_width`` of its interval is None below ``MIN_TRIALS``."""

    mean: float
    num_trials: int
    half_width: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean and its 95% confidence interval by Student's t.

    Raises:
        ValueError: no values.
    """
    count = len(values)
    if count == 0:
        raise ValueError("no values to estimate a mean from")
    mean = fmean(values)
    if count < MIN_TRIALS:
        return Estimate(mean, count, None)
    half_width = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * stdev(values) / count**0.5
    return Estimate(mean, count, half_width)


@dataclass(frozen=True, slots=True)
class Interval:
    """Estimate with its interval; ``low`` and ``high`` are None below ``MIN_TRIALS``."""

    value: float
    low: float | None
    high: float | None
    num_trials: int


def percentile_interval(
    values: Sequence[float], percent: float = 50.0, confidence: float = CONFIDENCE
) -> Interval:
    """Return a percentile of the values (linear between ranks) with its percentile-bootstrap
    interval.

    Raises:
        ValueError: no values.
    """
    return _bootstrap([values], lambda drawn: _percentile(drawn[0], percent), confidence)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of the values with its percentile-bootstrap interval.

    Raises:
        ValueError: no values.
    """
    return _bootstrap([values], lambda drawn: drawn[0].mean(axis=-1), confidence)


def ratio_of_medians(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Return the ratio of two medians, whose interval resamples both. ``trials`` is the smaller
    number of values.

    Raises:
        ValueError: no values, or one of the denominator is not above 0.
    """
    if len(denominator) and min(denominator) <= 0:
        raise ValueError(f"denominators go down to {min(denominator)}; they must be above 0")
    return _bootstrap(
        [numerator, denominator],
        lambda drawn: _percentile(drawn[0], 50.0) / _percentile(drawn[1], 50.0),
        confidence,
    )


def _percentile(rows: Values, percent: float) -> Values:
    return np.asarray(np.percentile(rows, percent, axis=-1), dtype=np.float64)


def _bootstrap(
    samples: Sequence[Sequence[float]],
    statistic: Callable[[list[Values]], Values],
    confidence: float,
) -> Interval:
    """Return a statistic with its bootstrap interval; samples are resampled independently, with a
    fixed seed."""
    arrays = [np.asarray(values, dtype=np.float64) for values in samples]
    fewest = min(len(values) for values in arrays)
    if fewest == 0:
        raise ValueError("no values to estimate from")
    value = float(statistic([values[np.newaxis] for values in arrays])[0])
    if fewest < MIN_TRIALS:
        return Interval(value, None, None, fewest)
    rng = np.random.default_rng(zlib.crc32(b"".join(values.tobytes() for values in arrays)))
    drawn = [rng.choice(values, (RESAMPLES, len(values))) for values in arrays]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(statistic(drawn), [tail, 100 - tail])
    return Interval(value, float(low), float(high), fewest)


def poisson_rate(
    count: int, exposure: float, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the events per unit of exposure, and both ends of the exact interval of their rate.

    Source: Garwood, Biometrika 28 (1936). The low end is the rate at which the observed number of
    events, or more, has half of the remaining probability. The high end is the rate at which that
    number, or fewer, has it. Without an event the low end is 0, and the high end is 3.69 events
    over the exposure at 95 %.

    Raises:
        ValueError: a negative count, or no exposure.
    """
    if count < 0 or not exposure > 0:
        raise ValueError(f"{count} events in an exposure of {exposure}; give 0 or more, above 0")
    tail = (1 - confidence) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    return count / exposure, low / exposure, float(gammaincinv(count + 1, 1 - tail)) / exposure


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Outcome of two one-sided tests."""

    mean: float
    low: float
    high: float
    """End of the interval, like ``low``; the test asks whether the interval lies inside the
    margins. It is 1 - 2 alpha wide."""
    p_value: float
    """P-value of the worse of the two tests."""
    verdict: str
    """``equivalent``; ``different``: the interval lies outside the margins; ``undecided``."""


def equivalence(values: Sequence[float], margin: float, alpha: float = 0.05) -> Equivalence | None:
    """Test whether the mean of ``values`` lies within ± ``margin`` of 0 by two one-sided t tests
    (TOST).

    Source: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987). The values are
    differences, or logarithms of ratios (then ``margin`` is ``log(1.01)`` for 1 %). None below
    ``MIN_TRIALS``.
    """
    count = len(values)
    if count < MIN_TRIALS:
        return None
    mean, error = fmean(values), stdev(values) / count**0.5
    half = float(stdtrit(count - 1, 1 - alpha)) * error
    low, high = mean - half, mean + half
    if error > 0:
        nearest = min(mean + margin, margin - mean) / error
        p_value = 1 - float(stdtr(count - 1, nearest))
    else:
        p_value = 0.0 if abs(mean) < margin else 1.0
    verdict = "undecided"
    if -margin < low and high < margin:
        verdict = "equivalent"
    elif low >= margin or high <= -margin:
        verdict = "different"
    return Equivalence(mean, low, high, p_value, verdict)
