"""One trace through one engine: the loop, its books and its rules."""

from harness.replay.decision_check import DecisionError
from harness.replay.loop import Progress, ReplayError, replay

__all__ = ["DecisionError", "Progress", "ReplayError", "replay"]
