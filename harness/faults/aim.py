"""Choice of the worker that a fault strikes, and of the moment."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.contracts.change import Change
from harness.contracts.marks import WorkerPhase
from harness.engines.live.slot_outages import Worker
from harness.faults.marks import SeenMarks
from harness.faults.plan import ANY, JOINING, LEAVE, SAVE, FaultPlan

LOOK_S = 0.001
"""Seconds of one look at a worker's phase marker, after which the backend runs again."""
NAP_S = 0.0001
"""Pause within a look for a phase that lasts milliseconds and comes once. It leaves the cores to
the workers. Looks for the phases of a step have no pause."""
_OF_A_STEP = (
    WorkerPhase.BETWEEN,
    WorkerPhase.FORWARD,
    WorkerPhase.BACKWARD,
    WorkerPhase.REDUCE,
    WorkerPhase.UPDATE,
)


@dataclass(frozen=True)
class Crowd:
    """Workers of a job that are alive and have not been struck yet, and the change in flight."""

    workers: Mapping[int, Worker]
    change: Change | None
    """Change in flight; None: no change."""
    asked: float
    """Time when the change was requested."""

    @property
    def joiners(self) -> list[int]:
        """Workers that were started for the change in flight."""
        if self.change is None:
            return []
        return sorted(h for h, worker in self.workers.items() if worker.started >= self.asked)

    @property
    def old(self) -> list[int]:
        """Workers that trained before the change in flight."""
        joiners = set(self.joiners)
        return sorted(handle for handle in self.workers if handle not in joiners)

    @property
    def is_robust(self) -> bool:
        """True if an old worker may be struck, because another worker with the state remains."""
        return len(self.old) > 1 and (self.change is None or len(self.change.slots) > 1)


def is_coming(moment: str, change: Change) -> bool:
    """Return whether this moment will come in this change, with a worker to strike then."""
    newcomers = set(change.slots) - set(change.previous_slots)
    if moment in JOINING:
        return bool(newcomers)
    if moment == ANY:
        return True
    if moment == LEAVE and not set(change.previous_slots) - set(change.slots):
        return False
    return min(len(change.slots), len(change.previous_slots)) > 1


class Moments:
    """Moments of a fault plan in drawn order; all occur equally often."""

    def __init__(self, plan: FaultPlan, drawn: random.Random) -> None:
        self._plan = plan
        self._drawn = drawn
        self._left: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()

    def next(self, change: Change | None) -> str | None:
        """Return a drawn moment that fits the change in flight (or its absence); None if no moment
        fits.

        The moment stays in the plan until ``taken`` is called.
        """
        # The unary plus drops moments whose count is 0.
        if not +self._left:
            self._left = Counter(self._plan.at)
        fits = [
            moment
            # Sorted, so that a seed draws the same moments in every process.
            for moment in sorted(+self._left)
            if self._plan.is_of_a_change(moment) == (change is not None)
            and (change is None or is_coming(moment, change))
        ]
        return self._drawn.choice(fits) if fits else None

    def taken(self, moment: str) -> None:
        """Note that a worker was struck at this moment."""
        self._left[moment] -= 1


class Aim:
    """Fault that is due: its victim is drawn once, then the fault waits for its moment."""

    def __init__(self, moment: str, plan: FaultPlan, drawn: random.Random) -> None:
        self.moment = moment
        self.until = time.monotonic() + plan.patience_s
        self._who = plan.who
        self._drawn = drawn
        self._victim: int | None = None

    def candidates(self, crowd: Crowd, marks: SeenMarks) -> Sequence[int]:
        """Return the workers that the fault may strike now."""
        old = crowd.old if crowd.is_robust else []
        if self.moment == ANY:
            pool = [*old, *crowd.joiners]
        else:
            pool = crowd.joiners if self.moment in JOINING else old
        if self.moment == LEAVE and crowd.change is not None:
            kept = crowd.change.slots
            pool = [handle for handle in pool if crowd.workers[handle].slot not in kept]
        who = "first" if self.moment == SAVE else self._who
        match who:
            case "joiner":
                return [handle for handle in pool if handle not in old]
            case "old":
                return [handle for handle in pool if handle in old]
            case "leader" | "first":
                seen = {handle: marks.of(crowd.workers[handle].name) for handle in pool}
                is_leader = who == "leader"
                return [
                    handle
                    for handle, mark in seen.items()
                    if mark is not None and (mark.leads if is_leader else mark.is_first)
                ]
        return pool

    def victim(self, crowd: Crowd, marks: SeenMarks) -> int | None:
        """Return the worker to strike; it stays the same as long as it is a candidate."""
        candidates = self.candidates(crowd, marks)
        if self._victim not in candidates:
            self._victim = self._drawn.choice(candidates) if candidates else None
        return self._victim

    def is_there(self, name: str, marks: SeenMarks) -> bool:
        """Watch the phase marker of a process for a while; return whether it reaches the wanted
        phase."""
        wanted = WorkerPhase[self.moment.upper()]
        naps = wanted not in _OF_A_STEP
        until = time.monotonic() + LOOK_S
        mark = marks.of(name)
        if mark is None:
            # A look always takes its time: while a fault is due, ``poll`` itself does not wait.
            time.sleep(LOOK_S)
            return False
        while mark.doing != wanted:
            if naps:
                time.sleep(NAP_S)
            if time.monotonic() >= until:
                return False
        return True
