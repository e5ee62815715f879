"""Which workers are struck, how and when."""

from __future__ import annotations

import math
import signal as signals
from dataclasses import dataclass

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
    """Faults of one run, at most; 0: none, so that whoever is killed is killed in error."""
    during: str = "steady"
    """``steady``: while no change is in flight; ``change``: after a change was requested."""
    signal: str = "SIGKILL"
    """``SIGKILL``: the worker dies; ``SIGSTOP``: it hangs."""
    victim: str = "any"
    """``any`` worker, the ``oldest`` (which often leads) or the ``newest`` (one that joins)."""
    settle_s: float = 1.0
    """Least wall-clock seconds of undisturbed training before a fault, so that there is a
    usual step to compare with."""
    spread_s: float = 1.0
    """A fault strikes at a random moment within so many seconds after that (``steady``) or
    after the request (``change``)."""

    def __post_init__(self) -> None:
        problems = []
        if self.count < 0:
            problems.append(f"count is {self.count}; give 0 or more")
        for name, known in (("during", MOMENTS), ("victim", VICTIMS), ("signal", SIGNALS)):
            if getattr(self, name) not in known:
                problems.append(f"{name} is {getattr(self, name)!r}; known: {', '.join(known)}")
        if not (math.isfinite(self.settle_s) and self.settle_s >= 0):
            problems.append(f"settle_s is {self.settle_s}; it must be finite and >= 0")
        if not (math.isfinite(self.spread_s) and self.spread_s > 0):
            problems.append(f"spread_s is {self.spread_s}; it must be finite and > 0")
        if problems:
            raise ValueError("\n".join(problems))

    @property
    def signum(self) -> signals.Signals:
        """The signal itself."""
        return signals.Signals[self.signal]
