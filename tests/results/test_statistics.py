"""Intervals and tests of equivalence, on numbers that can be looked up."""

from __future__ import annotations

import math
import random

import pytest

from harness.metrics.statistics import (
    equivalence,
    mean_interval,
    percentile_interval,
    poisson_rate,
    ratio_of_medians,
)


def test_the_interval_of_a_median() -> None:
    found = percentile_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (found.value, found.num_trials) == (3.0, 5)
    # A resampled median is 1 or 100 with probability 6 %, so the interval reaches both ends.
    assert (found.low, found.high) == (1.0, 100.0)
    assert percentile_interval([1.0, 2.0, 4.0]).low is None
    assert percentile_interval([7.0] * 9).high == 7.0
    assert percentile_interval(list(map(float, range(101))), 95).value == pytest.approx(95)
    with pytest.raises(ValueError, match="no values"):
        percentile_interval([])


def test_the_interval_of_a_mean() -> None:
    found = mean_interval([0.0, 0.0, 0.0, 0.0, 5.0])
    assert (found.value, found.num_trials) == (1.0, 5)
    # None of five draws is the 5 with probability 0.8**5 = 33 %; three or more are with 5.8 %,
    # four or more with 0.7 %.
    assert (found.low, found.high) == (0.0, 3.0)
    assert mean_interval([1.0, 2.0]).high is None
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])


def test_intervals_hold_the_true_median_as_often_as_they_say() -> None:
    drawn = random.Random(3)
    held = 0
    for _ in range(150):
        found = percentile_interval([drawn.expovariate(math.log(2)) for _ in range(25)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.0 <= found.high  # the median of this distribution
    assert 0.88 <= held / 150 <= 0.99


def test_ratios_of_medians() -> None:
    found = ratio_of_medians([4.0, 8.0, 12.0, 8.0, 8.0], [2.0] * 7)
    assert (found.value, found.num_trials) == (4.0, 5)
    assert found.low is not None
    assert 2.0 <= found.low <= 4.0
    with pytest.raises(ValueError, match="above 0"):
        ratio_of_medians([1.0], [0.0])


def test_equivalence_within_a_margin() -> None:
    margin = math.log(1.01)
    near = [0.002, -0.001, 0.001, 0.003, -0.002, 0.000, 0.001, 0.002]
    found = equivalence(near, margin)
    assert found is not None
    assert found.verdict == "equivalent"
    assert found.p_value < 0.001
    # By hand: mean 0.00075, standard deviation 0.001669, t(0.95, 7) 1.8946.
    assert found.high == pytest.approx(0.00075 + 1.8946 * 0.001669 / 8**0.5, abs=1e-5)
    far = equivalence([value + 0.05 for value in near], margin)
    assert far is not None
    assert far.verdict == "different"
    wide = equivalence([20 * value for value in near], margin)
    assert wide is not None
    assert wide.verdict == "undecided"
    assert equivalence(near[:4], margin) is None


def test_equivalence_is_claimed_wrongly_as_rarely_as_alpha_says() -> None:
    """A mean at the margin: equivalence is wrong, and claimed in at most 5 % of the cases."""
    drawn = random.Random(5)
    wrong = 0
    for _ in range(400):
        found = equivalence([drawn.gauss(0.01, 0.004) for _ in range(12)], 0.01)
        assert found is not None
        wrong += found.verdict == "equivalent"
    assert wrong / 400 <= 0.08


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # The table of exact limits in Garwood, Biometrika 28 (1936), and chi-squared quantiles.
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (5, 1.623, 11.668), (100, 81.364, 121.627)],
)
def test_the_interval_of_a_rate_is_the_exact_one(count: int, low: float, high: float) -> None:
    assert poisson_rate(count, 1.0) == pytest.approx((count, low, high), abs=1e-3)
    assert poisson_rate(count, 4.0)[2] == pytest.approx(high / 4, abs=1e-3)


@pytest.mark.parametrize(("count", "exposure"), [(-1, 1.0), (0, 0.0)])
def test_a_rate_needs_an_exposure(count: int, exposure: float) -> None:
    with pytest.raises(ValueError, match="0 or more, above 0"):
        poisson_rate(count, exposure)
