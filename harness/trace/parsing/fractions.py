"""Conversion of shares of a device to whole slots, since schedulers give whole slots only."""

from __future__ import annotations

import numpy as np

from harness.trace.parsing.table import Floats

_EXACT = 1e-9
"""Largest relative rounding error of a share that was written in decimals."""


def whole_slots(asked: Floats) -> tuple[Floats, int]:
    """Return the slots that hold each request, and the number of jobs that asked for a part of one.

    Args:
        asked: slots, perhaps with fractions; NaN stays NaN.
    """
    nearest = np.round(asked)
    is_whole = np.abs(asked - nearest) <= _EXACT * np.maximum(1.0, np.abs(nearest))
    parts = ~is_whole & ~np.isnan(asked)
    return np.where(is_whole, nearest, np.ceil(asked)), int(parts.sum())
