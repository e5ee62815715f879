"""How many examples a property is tried with: a fifth in ``make test``, all in ``make test-long``.

Every test of a property belongs to both suites (``tests/conftest.py``). So the fast suite finds
what is grossly wrong within minutes, and no guard is lost.
"""

from __future__ import annotations

SHARE = 5
LEAST = 10
"""Fewer examples would hardly go beyond the simplest values."""
_ways = {"is_long": False}


def choose(markers: str) -> bool:
    """Note which suite is run, before any test is imported.

    Args:
        markers: pytest's expression of markers (``-m``).

    Returns:
        Whether all examples are tried.
    """
    _ways["is_long"] = "long" in markers and "not long" not in markers
    return _ways["is_long"]


def examples(count: int) -> int:
    """Return how many of ``count`` examples the present suite tries."""
    return count if _ways["is_long"] else min(count, max(LEAST, count // SHARE))
