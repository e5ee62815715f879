"""Spread of measured numbers in a profile: checks, and conversion to a standard deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from harness.profiles.document import Document, KeyPath
from harness.profiles.table import count, number


@cache
def expected_range(num_trials: int) -> float:
    """Return the expected range (largest minus smallest) of ``num_trials`` normal draws.

    The unit is the standard deviation of the distribution: 1.128 for two draws, 2.326 for five.

    Source: Tippett, "On the extreme individuals and the range of samples taken from a normal
    population", Biometrika 17 (1925): the integral of 1 - F^n - (1 - F)^n.

    Raises:
        ValueError: there are fewer than two draws, which have no range.
    """
    if num_trials < 2:
        raise ValueError(f"num_trials is {num_trials}; a range needs at least 2")
    places = np.linspace(-10.0, 10.0, 4001)
    below = ndtr(places)
    return float(np.trapezoid(1.0 - below**num_trials - ndtr(-places) ** num_trials, places))


def deviation(spread: object, num_trials: object) -> float:
    """Return the standard deviation of numbers whose largest minus smallest is ``spread``.

    It is 0 if the profile states no spread, or fewer than two trials.
    """
    if isinstance(spread, bool) or not isinstance(spread, int | float):
        return 0.0
    if isinstance(num_trials, bool) or not isinstance(num_trials, int) or num_trials < 2:
        return 0.0
    return spread / expected_range(num_trials) if 0.0 < spread < math.inf else 0.0


def check_spread(document: Document, keys: KeyPath, value: object, problems: list[str]) -> None:
    """Check a curve's spread (batch → slots → share of the median); collect its mistakes."""
    rows = value if isinstance(value, Mapping) else {None: value}
    for batch, row in rows.items():
        cells = row if isinstance(row, Mapping) else {None: row}
        sizes = [size for size in (batch, *cells) if count(size) is None]
        shares = [share for share in cells.values() if not _is_share(share)]
        if sizes or shares:
            shown = f"{batch}: {row}" if isinstance(value, Mapping) else repr(value)
            problems.append(
                f"{document.place(*keys)}: is {shown}; give largest minus smallest trial over the"
                " median by batch and slots, such as {64: {1: 0.05, 2: 0.1}}, or leave it out"
            )


def _is_share(value: object) -> bool:
    share = None if isinstance(value, str) else number(value)
    return share is not None and 0.0 <= share < math.inf


def nearest(table: object, *keys: int) -> object:
    """Return the entry of nested mappings whose keys are nearest to the given ones.

    Among equally near keys the smaller one is taken. The result is None if a mapping is empty or
    absent.
    """
    for key in keys:
        if not isinstance(table, Mapping) or not table:
            return None
        entries: Mapping[Any, Any] = {int(own): entry for own, entry in table.items()}
        table = entries[min(entries, key=lambda own: (abs(own - key), own))]
    return table
