"""Stages of a user's script within a step."""

from __future__ import annotations

from enum import Enum


class Stage(Enum):
    """Stage of the script within a step."""

    BETWEEN = "between"
    DRAWN = "drawn"
    CALLED = "called"
    """The model is being called."""
    FORWARD = "forward"
    REDUCED = "reduced"
    """The gradients are the workers' mean."""
    COMMITTED = "committed"
