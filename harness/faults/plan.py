"""Which workers are struck or slowed, how and when."""

from __future__ import annotations

import math
import signal as signals
from dataclasses import dataclass

from harness.faults.slowing import LONGEST_STOP_S

MOMENTS = ("steady", "change")
VICTIMS = ("any", "oldest", "newest")
SIGNALS = ("SIGKILL", "SIGSTOP")


@dataclass(frozen=True)
class FaultPlan:
    """Options of fault injection.

    A worker that is the last of its job is never struck: nobody would be left to go on.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    count: int = 10
    """Faults of one run, at most."""
    during: str = "steady"
    """``steady``: while no change is in flight; ``change``: after a change was requested."""
    signal: str = "SIGKILL"
    """``SIGKILL``: the worker dies; ``SIGSTOP``: it hangs, or is slow (``speed``)."""
    victim: str = "any"
    """``any`` worker, the ``oldest`` (which often leads) or the ``newest`` (one that joins)."""
    settle_s: float = 1.0
    """Least wall-clock seconds of undisturbed training before a fault, so that there is a
    usual step to compare with."""
    spread_s: float = 1.0
    """A fault strikes at a random moment within so many seconds after that (``steady``) or
    after the request (``change``)."""
    speed: float = 0.0
    """With ``SIGSTOP``: the share of the time that the worker still runs; it is stopped and
    continued again and again. 0: it is never continued."""
    period_s: float = 0.02
    """Seconds from one stop of a slow worker to the next: well below the time of a step, so
    that all steps are slow alike."""
    lasting_s: float = 30.0
    """Seconds for which a worker is slow."""
    at_once: int = 1
    """Workers that become slow at the same time."""

    def __post_init__(self) -> None:
        problems = []
        if self.count < 1:
            problems.append(f"count is {self.count}; give 1 or more")
        for name, known in (("during", MOMENTS), ("victim", VICTIMS), ("signal", SIGNALS)):
            if getattr(self, name) not in known:
                problems.append(f"{name} is {getattr(self, name)!r}; known: {', '.join(known)}")
        if not (math.isfinite(self.settle_s) and self.settle_s >= 0):
            problems.append(f"settle_s is {self.settle_s}; it must be finite and >= 0")
        if not (math.isfinite(self.spread_s) and self.spread_s > 0):
            problems.append(f"spread_s is {self.spread_s}; it must be finite and > 0")
        for name in ("period_s", "lasting_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                problems.append(f"{name} is {getattr(self, name)}; it must be finite and > 0")
        if not 0 <= self.speed < 1:
            problems.append(f"speed is {self.speed}; it must be 0, or between 0 and 1")
        elif self.slows:
            if self.signal != "SIGSTOP":
                problems.append(f"speed is {self.speed}, but signal is not SIGSTOP; set it")
            if self.period_s * (1 - self.speed) > LONGEST_STOP_S:
                problems.append(
                    f"period_s is {self.period_s} at speed {self.speed}: a stop would be longer"
                    f" than {LONGEST_STOP_S} s and be taken for a death; give a shorter period"
                )
        if self.at_once < 1 or (self.at_once > 1 and not self.slows):
            problems.append(
                f"at_once is {self.at_once}; it must be 1, or more where workers are slowed (speed)"
            )
        if problems:
            raise ValueError("\n".join(problems))

    @property
    def slows(self) -> bool:
        """Whether workers are made slow, and neither killed nor stopped for good."""
        return self.speed > 0

    @property
    def signum(self) -> signals.Signals:
        """The signal itself."""
        return signals.Signals[self.signal]
