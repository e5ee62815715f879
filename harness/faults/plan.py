"""Options of fault injection: which workers are struck or slowed, how and when."""

from __future__ import annotations

import math
import signal as signals
from dataclasses import dataclass

from harness.contracts.marks import WorkerPhase
from harness.faults.slowing import LONGEST_STOP_S

ANY = "any"
SAVE, LEAVE = "save", "leave"
PHASES = tuple(doing.name.lower() for doing in WorkerPhase if doing is not WorkerPhase.START)
"""Activities of a worker for which a fault can wait."""
JOINING = ("prepare", "copy")
OF_A_CHANGE = (*JOINING, "switch", LEAVE)
"""Phases that exist only during a change of a job, or that are struck only then."""
DURING = ("steady", "change")
WHO = ("any", "leader", "first", "old", "joiner")
SIGNALS = ("SIGKILL", "SIGSTOP")


@dataclass(frozen=True)
class FaultPlan:
    """Options of fault injection.

    A worker is struck only if another worker with the job's state remains.

    Raises:
        ValueError: options out of range, all at once, one line each.
    """

    count: int = 10
    """Largest number of faults in one run. 0: no faults, so any killed worker was killed in
    error."""
    at: tuple[str, ...] = (ANY,)
    """Moments at which a worker is struck: ``any``, or while its mark shows this phase. Several
    moments are taken in drawn order, each as often as the others.

    ``prepare`` and ``copy`` concern workers that join; ``switch`` concerns workers that trained
    before, in a change of at least two workers. ``leave`` concerns workers whose slots the change
    gives up, and ``save`` the first worker. For ``recover``, another worker is killed first, of
    three or more.
    """
    who: str = ANY
    """Victim among the workers that the phase concerns: ``any``, the ``leader``, the ``first``
    worker (rank 0), an ``old`` worker (it trained before the change in flight), or a ``joiner``."""
    during: str = "steady"
    """Time at which ``any`` and ``save`` strike. ``steady``: while no change is in flight;
    ``change``: after a change was requested."""
    signal: str = "SIGKILL"
    """Signal to the victim. ``SIGKILL``: the worker dies; ``SIGSTOP``: it hangs, or is slow
    (``speed``)."""
    settle_s: float = 1.0
    """Least wall-clock seconds of undisturbed training before a fault, as a usual step for
    comparison."""
    spread_s: float = 1.0
    """Length of the period in which a fault becomes due at a random moment, in seconds. The period
    begins after ``settle_s`` without changes, or with a change's request for ``any`` moment of a
    change."""
    patience_s: float = 10.0
    """Longest wait for a phase, in seconds. A phase that has not come by then is a missed fault; no
    other moment replaces it."""
    speed: float = 0.0
    """Share of the time that a worker still runs, with ``SIGSTOP``; it is stopped and continued
    again and again. 0: the worker is never continued."""
    period_s: float = 0.02
    """Seconds from one stop of a slow worker to the next. They must be well below the time of a
    step, so that all steps are equally slow."""
    lasting_s: float = 30.0
    """Seconds for which a slow worker is slowed."""
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
                f"who is 'joiner', but at is {list(self.at)}; joining workers are only ever in "
                f"{' or '.join(JOINING)}"
            )
        if self.who in ("leader", "first", "old") and any(one in JOINING for one in self.at):
            problems.append(
                f"who is {self.who!r}, but at is {list(self.at)}; only joining workers are in "
                f"{' or '.join(JOINING)}"
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
                    f"period_s is {self.period_s} at speed {self.speed}: a stop would be longer "
                    f"than {LONGEST_STOP_S} s and would look like a dead worker; give a shorter "
                    "period"
                )
        if self.at_once < 1 or (self.at_once > 1 and not self.slows):
            problems.append(
                f"at_once is {self.at_once}; it must be 1, or more if workers are slowed (speed)"
            )
        if problems:
            raise ValueError("\n".join(problems))

    @property
    def slows(self) -> bool:
        """True if workers are slowed, and neither killed nor stopped for good."""
        return self.speed > 0

    @property
    def signum(self) -> signals.Signals:
        """Signal as a number."""
        return signals.Signals[self.signal]

    def is_of_a_change(self, moment: str) -> bool:
        """Return whether this moment comes during a change of a job."""
        return self.during == "change" if moment in (ANY, SAVE) else moment in OF_A_CHANGE
