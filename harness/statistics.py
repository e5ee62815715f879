"""Estimates with intervals, and tests of equivalence: pure functions.

Means have Student's interval; medians, and ratios of medians, have bootstrap intervals, which
assume nothing of the distribution but that trials are independent.
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
    half_width = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * stdev(values) / count**0.5
    return Estimate(mean, count, half_width)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate; ``low`` and ``high`` of its interval are None below ``MIN_TRIALS``."""

    value: float
    low: float | None
    high: float | None
    num_trials: int


def percentile_interval(
    values: Sequence[float], percent: float = 50.0, confidence: float = CONFIDENCE
) -> Interval:
    """A percentile of the values (linear between ranks) with its percentile-bootstrap interval.

    Raises:
        ValueError: no values.
    """
    return _bootstrap([values], lambda drawn: _percentile(drawn[0], percent), confidence)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """A mean of the values with its percentile-bootstrap interval.

    Raises:
        ValueError: no values.
    """
    return _bootstrap([values], lambda drawn: drawn[0].mean(axis=-1), confidence)


def ratio_of_medians(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Median over median, both resampled for the interval; trials are those of the fewer.

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
    """A statistic of one or more samples, each resampled by itself; repeatable."""
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
    """Events per unit of exposure, and both ends of the exact interval of their rate.

    Source: Garwood, Biometrika 28 (1936): the rates at which so few, or so many, events would
    have half of the remaining probability. With no event the low end is 0 and the high one is
    3.69 events over the exposure at 95 %.

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
    """The outcome of two one-sided tests."""

    mean: float
    low: float
    high: float
    """The interval whose lying inside the margins is the test: 1 - 2 alpha wide."""
    p_value: float
    """Of the worse of the two tests."""
    verdict: str
    """``equivalent``; ``different``: the interval lies outside the margins; ``undecided``."""


def equivalence(values: Sequence[float], margin: float, alpha: float = 0.05) -> Equivalence | None:
    """Two one-sided t tests (TOST) that the mean of ``values`` lies within ± ``margin`` of 0.

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
