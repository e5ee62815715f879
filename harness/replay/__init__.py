"""Replay of one trace through one engine: the loop, its books and its rules."""

from harness.replay.decision_check import DecisionError
from harness.replay.endless import ReplayError
from harness.replay.loop import Progress, replay

__all__ = ["DecisionError", "Progress", "ReplayError", "replay"]
