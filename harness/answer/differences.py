"""Paired differences from a baseline, with intervals, and what they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.answer.units import MINUS, number, percent
from harness.metrics.statistics import MIN_TRIALS, estimate

_LARGEST_LOG = 700.0
"""Largest logarithm of a ratio; the exponential of a larger one may exceed all floats."""
_TIMES_FROM = 2.0
"""Ratio from which a difference is said as so many times, not in percent."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of one system from another over pairs of runs on the same inputs."""

    value: float
    """Mean of the pairs: a ratio (of geometric means), or a difference."""
    low: float | None
    """End of the interval, like ``high``: of 95 % from five pairs on, else the least pair. None if
    there is one pair."""
    high: float | None
    num_pairs: int
    num_below: int
    """Pairs below the baseline."""
    num_above: int
    is_ratio: bool

    @property
    def side(self) -> int:
        """Side of the baseline that the pairs decide: -1 below, 1 above, 0 not distinguishable."""
        equal = 1.0 if self.is_ratio else 0.0
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        return (low > equal) - (high < equal)

    @property
    def is_interval(self) -> bool:
        """True if the ends are those of a confidence interval, not the least and largest pair."""
        return self.num_pairs >= MIN_TRIALS


def paired(pairs: Sequence[tuple[float, float]], is_share: bool = False) -> Difference:
    """Return the difference of the first values of pairs from the second ones.

    It is a ratio if all values are above 0 and they are no shares. Its interval is Student's, of
    the differences or of the logarithms of the ratios.

    Raises:
        ValueError: no pairs.
    """
    is_ratio = not is_share and min(map(min, pairs)) > 0
    # Logarithms first: a quotient of two numbers above 0 may round to 0.
    each = [math.log(own) - math.log(base) if is_ratio else own - base for own, base in pairs]
    found = estimate(each)
    low, high = (min(each), max(each)) if len(each) > 1 else (None, None)
    if found.half_width is not None:
        low, high = found.mean - found.half_width, found.mean + found.half_width

    def back(value: float | None) -> float | None:
        return math.exp(min(value, _LARGEST_LOG)) if is_ratio and value is not None else value

    value = back(found.mean)
    assert value is not None
    below, above = sum(own < base for own, base in pairs), sum(own > base for own, base in pairs)
    return Difference(value, back(low), back(high), len(each), below, above, is_ratio)


def cell(found: Difference, is_share: bool) -> str:
    """Return a difference with its ends for a table."""
    if not found.is_ratio:
        return _with_ends(found, lambda v: _plus(100 * v, ".0f") if is_share else _plus(v, ".3g"),
                          " points" if is_share else "")  # fmt: skip
    if max(found.value, found.high or 0.0) >= _TIMES_FROM:
        return _with_ends(found, number, " times")
    is_fine = abs(found.value - 1) < 0.0995 or found.value < 0.1
    return _with_ends(found, lambda v: _plus(100 * (v - 1), ".1f" if is_fine else ".0f"), " %")


def said(found: Difference, baseline: str, is_share: bool) -> str:
    """Return a difference in words, without its ends: 39 % below fifo."""
    if not found.is_ratio:
        size = abs(found.value)
        if is_share:
            points = f"{100 * size:.0f}" if size >= 0.1 else f"{100 * size:.1f}"
            return f"{points} points {'below' if found.value < 0 else 'above'} {baseline}"
        return f"{number(size)} {'less' if found.value < 0 else 'more'} than {baseline}"
    if found.value >= _TIMES_FROM:
        return f"{times(found.value)} as much as {baseline}"
    direction = "below" if found.value < 1 else "above"
    share = (
        f"{100 * (1 - found.value):.1f} %" if found.value < 0.1 else percent(abs(found.value - 1))
    )
    return f"{share} {direction} {baseline}"


def times(ratio: float) -> str:
    """Return a ratio in words."""
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _plus(value: float, form: str) -> str:
    text = format(value, form)
    if float(text) == 0:
        return "0"
    return MINUS + text[1:] if text.startswith("-") else f"+{text}"


def _with_ends(found: Difference, form: object, unit: str) -> str:
    assert callable(form)
    text = f"{form(found.value)}{unit}"
    if found.low is None or found.high is None:
        return text
    if found.is_interval:
        return f"{text} [{form(found.low)}, {form(found.high)}]"
    return f"{text} ({form(found.low)} to {form(found.high)})"
