"""Numbers and intervals as text."""

from __future__ import annotations

from harness.metrics.statistics import Interval


def interval_text(found: Interval, form: str) -> str:
    """Return both ends as text, or a text that there are too few trials for them."""
    if found.low is None or found.high is None:
        return f"none, n = {found.num_trials}"
    return f"{found.low:{form}} to {found.high:{form}}"
