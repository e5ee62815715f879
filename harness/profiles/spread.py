"""From the spread that a profile states beside a number to a standard deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr


@cache
def expected_range(num_trials: int) -> float:
    """Largest minus smallest of so many draws of a normal distribution, expected, in its standard
    deviations: 1.128 of two, 2.326 of five.

    Source: Tippett, "On the extreme individuals and the range of samples taken from a normal
    population", Biometrika 17 (1925): the integral of 1 - F^n - (1 - F)^n.

    Raises:
        ValueError: fewer than two draws have no range.
    """
    if num_trials < 2:
        raise ValueError(f"num_trials is {num_trials}; a range needs at least 2")
    places = np.linspace(-10.0, 10.0, 4001)
    below = ndtr(places)
    return float(np.trapezoid(1.0 - below**num_trials - ndtr(-places) ** num_trials, places))


def deviation(spread: object, num_trials: object) -> float:
    """Standard deviation of numbers of which largest minus smallest is ``spread``; 0 where a
    profile does not say it, or states no number of trials of at least 2."""
    if isinstance(spread, bool) or not isinstance(spread, int | float):
        return 0.0
    if isinstance(num_trials, bool) or not isinstance(num_trials, int) or num_trials < 2:
        return 0.0
    return spread / expected_range(num_trials) if 0.0 < spread < math.inf else 0.0


def nearest(table: object, *keys: int) -> object:
    """The entry of nested mappings whose keys are nearest to those given, among equals the
    smaller; None where there is none."""
    for key in keys:
        if not isinstance(table, Mapping) or not table:
            return None
        entries: Mapping[Any, Any] = {int(own): entry for own, entry in table.items()}
        table = entries[min(entries, key=lambda own: (abs(own - key), own))]
    return table
