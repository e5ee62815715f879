"""Profiles with curves given in a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.profiles import Profile
from harness.profiles.curves import Family
from tests.replay.worlds import profile


def curve_profile(curves: Mapping[str, Mapping[int, float]]) -> Profile:
    """Samples per second by workload and slots, the same at every batch; changes are free."""
    known = profile()
    families = {name: Family({8: dict(cells)}) for name, cells in curves.items()}
    return replace(known, families={**known.families, **families})
