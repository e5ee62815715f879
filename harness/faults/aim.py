"""Who is to be struck at which moment, and whether it is there yet."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.contracts.engine import Change
from harness.contracts.marks import Doing
from harness.faults.marks import SeenMarks
from harness.faults.plan import ANY, JOINING, LEAVE, SAVE, FaultPlan
from harness.faults.watched import Worker

LOOK_S = 0.001
"""How long one look at a mark lasts before the backend has its turn again."""
NAP_S = 0.0001
"""Pause within a look where the phase lasts milliseconds and comes once: it leaves the cores
to the workers. Phases of a step are looked for without a pause."""
_OF_A_STEP = (Doing.BETWEEN, Doing.FORWARD, Doing.BACKWARD, Doing.REDUCE, Doing.UPDATE)


@dataclass(frozen=True)
class Crowd:
    """The workers that live and have not been struck, by handle, and what goes on."""

    workers: Mapping[int, Worker]
    change: Change | None
    """The one in flight."""
    asked: float
    """When it was asked for."""

    @property
    def joiners(self) -> list[int]:
        """Those that were started for the change in flight."""
        if self.change is None:
            return []
        return sorted(h for h, worker in self.workers.items() if worker.started >= self.asked)

    @property
    def old(self) -> list[int]:
        """Those that trained before it."""
        joiners = set(self.joiners)
        return sorted(handle for handle in self.workers if handle not in joiners)

    @property
    def is_robust(self) -> bool:
        """Whether an old worker may be struck: another one that has the state will be left."""
        return len(self.old) > 1 and (self.change is None or len(self.change.slots) > 1)


def is_coming(moment: str, change: Change) -> bool:
    """Whether this moment of a change will be there in this one, and somebody to strike."""
    newcomers = set(change.slots) - set(change.previous_slots)
    if moment in JOINING:
        return bool(newcomers)
    if moment == ANY:
        return True
    if moment == LEAVE and not set(change.previous_slots) - set(change.slots):
        return False
    return min(len(change.slots), len(change.previous_slots)) > 1


class Moments:
    """The moments of a plan in drawn order, each as often as the others."""

    def __init__(self, plan: FaultPlan, drawn: random.Random) -> None:
        self._plan = plan
        self._drawn = drawn
        self._left: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()

    def next(self, change: Change | None) -> str | None:
        """One that this change brings about, or the time without one; None: none of those
        that are left. It stays until it is ``taken``."""
        if not +self._left:
            self._left = Counter(self._plan.at)
        fits = [
            moment
            for moment in sorted(+self._left)
            if self._plan.is_of_a_change(moment) == (change is not None)
            and (change is None or is_coming(moment, change))
        ]
        return self._drawn.choice(fits) if fits else None

    def taken(self, moment: str) -> None:
        """A worker was struck at it."""
        self._left[moment] -= 1


class Aim:
    """One fault that is due: the victim is drawn once and then waited for."""

    def __init__(self, moment: str, plan: FaultPlan, drawn: random.Random) -> None:
        self.moment = moment
        self.until = time.monotonic() + plan.patience_s
        self._who = plan.who
        self._drawn = drawn
        self._victim: int | None = None

    def candidates(self, crowd: Crowd, marks: SeenMarks) -> Sequence[int]:
        """Whom it may strike now."""
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
        """Who is to be struck: the same as before as long as it may be."""
        candidates = self.candidates(crowd, marks)
        if self._victim not in candidates:
            self._victim = self._drawn.choice(candidates) if candidates else None
        return self._victim

    def is_there(self, name: str, marks: SeenMarks) -> bool:
        """Look at the mark of a process for a while: is it where it is wanted?"""
        wanted = Doing[self.moment.upper()]
        naps = wanted not in _OF_A_STEP
        until = time.monotonic() + LOOK_S
        mark = marks.of(name)
        if mark is None:
            time.sleep(LOOK_S)
            return False
        while mark.doing != wanted:
            if naps:
                time.sleep(NAP_S)
            if time.monotonic() >= until:
                return False
        return True
