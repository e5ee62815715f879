"""Which workers are struck or slowed, how and when."""

from __future__ import annotations

import math
import signal as signals
from dataclasses import dataclass

from harness.contracts.marks import Doing
from harness.faults.slowing import LONGEST_STOP_S

ANY = "any"
SAVE, LEAVE = "save", "leave"
PHASES = tuple(doing.name.lower() for doing in Doing if doing is not Doing.START)
"""What a worker can be waited for to be doing."""
JOINING = ("prepare", "copy")
OF_A_CHANGE = (*JOINING, "switch", LEAVE)
"""Phases that there are only while a job is being changed, or that are struck only then."""
DURING = ("steady", "change")
WHO = ("any", "leader", "first", "old", "joiner")
SIGNALS = ("SIGKILL", "SIGSTOP")


@dataclass(frozen=True)
class FaultPlan:
    """Options of fault injection.

    Nobody is struck where no worker that has the job's state might be left to go on.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    count: int = 10
    """Faults of one run, at most; 0: none, so that whoever is killed is killed in error."""
    at: tuple[str, ...] = (ANY,)
    """When a worker is struck: at ``any`` moment, or when its mark says that it is in this
    phase. Several are taken in drawn order, each as often as the others. ``prepare`` and
    ``copy`` are of workers that join, ``switch`` of those that have trained before, in a change
    of at least two workers, ``leave`` of those whose slots are given up in it, ``save`` of the
    first worker; for ``recover`` another worker is killed first, of three or more."""
    who: str = ANY
    """``any`` worker of those the phase is about, the ``leader``, the ``first`` one (rank 0),
    an ``old`` one (it trained before the change in flight), or a ``joiner``."""
    during: str = "steady"
    """Of ``any`` moment, and of ``save``. ``steady``: while no change is in flight; ``change``:
    after one was requested."""
    signal: str = "SIGKILL"
    """``SIGKILL``: the worker dies; ``SIGSTOP``: it hangs, or is slow (``speed``)."""
    settle_s: float = 1.0
    """Least wall-clock seconds of undisturbed training before a fault, so that there is a
    usual step to compare with."""
    spread_s: float = 1.0
    """A fault is due at a random moment within so many seconds after that (while nothing
    changes) or after the request of a change (at ``any`` moment of one)."""
    patience_s: float = 10.0
    """How long a phase is waited for. One that has not come by then is a fault missed; nobody
    is struck at another moment in its stead."""
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
        if self.count < 0:
            problems.append(f"count is {self.count}; give 0 or more")
        known_at = (ANY, *PHASES)
        if not self.at:
            problems.append(f"at is empty; known: {', '.join(known_at)}")
        problems += [
            f"at names {one!r}; known: {', '.join(known_at)}"
            for one in self.at
            if one not in known_at
        ]
        for name, known in (("during", DURING), ("who", WHO), ("signal", SIGNALS)):
            if getattr(self, name) not in known:
                problems.append(f"{name} is {getattr(self, name)!r}; known: {', '.join(known)}")
        if self.who == "joiner" and any(one not in (ANY, *JOINING) for one in self.at):
            problems.append(
                f"who is 'joiner', but at is {list(self.at)}; a worker that joins is only ever"
                f" in {' or '.join(JOINING)}"
            )
        if self.who in ("leader", "first", "old") and any(one in JOINING for one in self.at):
            problems.append(
                f"who is {self.who!r}, but at is {list(self.at)}; only workers that join are in"
                f" {' or '.join(JOINING)}"
            )
        if not (math.isfinite(self.settle_s) and self.settle_s >= 0):
            problems.append(f"settle_s is {self.settle_s}; it must be finite and >= 0")
        for name in ("spread_s", "patience_s", "period_s", "lasting_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                problems.append(f"{name} is {value}; it must be finite and > 0")
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

    def is_of_a_change(self, moment: str) -> bool:
        """Whether this moment comes while a job is being changed."""
        return self.during == "change" if moment in (ANY, SAVE) else moment in OF_A_CHANGE
