"""An engine that does everything the contract allows: changes that take time or fail, slots
that go down and come back, workers that die. Seeded, so that a failing case repeats."""

from __future__ import annotations

import heapq
import itertools
import random

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities
from harness.contracts.change import ChangeKind
from harness.contracts.event import Event, EventKind


class ChaosEngine:
    """T(w) = w samples per second; delays are 0, or whole seconds up to ``max_delay_s``."""

    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        *,
        max_delay_s: int = 0,
        failure_share: float = 0.0,
        outages: tuple[tuple[int, int, int], ...] = (),
        deaths: tuple[tuple[int, int], ...] = (),
        shrinks: bool = False,
        progress: bool = False,
    ) -> None:
        """``outages``: (slot, from second, to second). ``deaths``: (slot, second) of workers
        whose slot stays up. ``shrinks``: a job goes on without its dead workers."""
        self.abilities = Abilities(True, True, True, True)
        self._rng = random.Random(seed)
        self._max_delay_s = max_delay_s
        self._failure_share = failure_share
        self._shrinks = shrinks
        self._progress = progress
        self._now_s = 0.0
        self._held: dict[str, tuple[int, ...]] = {}
        self._rate: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._work: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._version: dict[str, int] = {}
        self._changes: dict[str, object] = {}
        self._count = itertools.count()
        self._heap: list[tuple] = []
        for slot, start_s, end_s in outages:
            self._push(float(start_s), "down", slot, 0, None)
            self._push(float(end_s), "up", slot, 0, None)
        for slot, at_s in deaths:
            self._push(float(at_s), "death", slot, 0, None)

    def now(self) -> float:
        return self._now_s

    def wait(self, until_s: float) -> list[Event]:
        events: list[Event] = []
        while self._heap and self._heap[0][0] <= until_s:
            # Two losses of one job are two instants: what follows from the first comes first.
            if events and (self._shrinks or self._heap[0][0] > self._now_s):
                break
            time_s, _, _, what, who, version, change = heapq.heappop(self._heap)
            if what not in ("down", "up", "death") and self._version.get(who) != version:
                continue
            self._now_s = max(self._now_s, time_s)
            events += getattr(self, f"_{what}")(who, change)
        if not events:
            if until_s == float("inf"):
                raise RuntimeError("nothing is under way and nothing is due")
            self._now_s = max(self._now_s, until_s)
        return events

    @property
    def is_idle(self) -> bool:
        return not any(
            what in ("down", "up", "death") or self._version.get(who) == version
            for _, _, _, what, who, version, _ in self._heap
        )

    def apply(self, changes) -> list[Event]:
        events: list[Event] = []
        for change in changes:
            job_id = change.job.job_id
            if change.kind is ChangeKind.START:
                self._work[job_id] = change.job.work_samples
                self._done.setdefault(job_id, 0.0)
            self._settle(job_id)
            self._changes[job_id] = change
            self._held[job_id] = tuple({*change.previous_slots, *change.slots})
            fails = self._rng.random() < self._failure_share
            delay_s = self._rng.randint(0, self._max_delay_s)
            if fails:
                self._later(max(1, delay_s), "fail", job_id, change)
            elif delay_s == 0:
                events += self._finish(job_id, change)
            else:
                self._later(delay_s, "finish", job_id, change)
        return events

    def observe(self, records) -> None:
        """Nothing to add."""

    def close(self) -> None:
        """Nothing to release."""

    def _push(self, time_s, what, who, version, change) -> None:
        order = ("down", "up", "death", "end", "fail", "finish", "report").index(what)
        entry = (time_s, order, next(self._count), what, who, version, change)
        heapq.heappush(self._heap, entry)

    def _later(self, delay_s, what, job_id, change) -> None:
        """The job stops training until its change ends; what was planned for it is void."""
        self._rate[job_id] = 0.0
        self._version[job_id] = self._version.get(job_id, 0) + 1
        self._push(self._now_s + delay_s, what, job_id, self._version[job_id], change)

    def _settle(self, job_id) -> None:
        passed = self._now_s - self._since.get(job_id, self._now_s)
        self._done[job_id] = self._done.get(job_id, 0.0) + self._rate.get(job_id, 0.0) * passed
        self._since[job_id] = self._now_s

    def _hold(self, job_id, slots) -> None:
        self._settle(job_id)
        self._changes.pop(job_id, None)
        self._held[job_id] = slots
        self._rate[job_id] = float(len(slots))
        self._version[job_id] = self._version.get(job_id, 0) + 1
        if slots:
            left_s = (self._work[job_id] - self._done[job_id]) / len(slots)
            self._push(self._now_s + left_s, "end", job_id, self._version[job_id], None)
            if self._progress:
                self._push(self._now_s + 1.0, "report", job_id, self._version[job_id], None)

    def _event(self, kind, job_id, **more) -> Event:
        done, rate = self._done[job_id], self._rate[job_id]
        return Event(self._now_s, kind, job_id, samples_done=done, samples_per_s=rate, **more)

    def _finish(self, job_id, change) -> list[Event]:
        self._hold(job_id, change.slots)
        return [self._event(EventKind.CHANGE_DONE, job_id, change_id=change.change_id)]

    def _fail(self, job_id, change) -> list[Event]:
        self._hold(job_id, change.previous_slots)
        return [self._event(EventKind.CHANGE_FAILED, job_id, change_id=change.change_id)]

    def _report(self, job_id, _) -> list[Event]:
        self._settle(job_id)
        self._push(self._now_s + 1.0, "report", job_id, self._version[job_id], None)
        return [self._event(EventKind.PROGRESS, job_id)]

    def _end(self, job_id, _) -> list[Event]:
        self._done[job_id] = self._work[job_id]
        self._rate[job_id] = 0.0
        self._version[job_id] += 1
        del self._held[job_id]
        return [self._event(EventKind.JOB_FINISHED, job_id)]

    def _down(self, slot, _) -> list[Event]:
        return [Event(self._now_s, EventKind.SLOT_DOWN, slot=slot), *self._death(slot, None)]

    def _death(self, slot, _) -> list[Event]:
        events = []
        for job_id in [job_id for job_id, slots in self._held.items() if slot in slots]:
            change = self._changes.get(job_id)
            before = change.previous_slots if change else self._held[job_id]
            left = tuple(other for other in before if other != slot)
            if not (self._shrinks and left):
                self._hold(job_id, ())
                events.append(self._event(EventKind.GRANT_LOST, job_id))
                continue
            if change is not None:
                events += self._fail(job_id, change)
            if left != before:
                self._hold(job_id, left)
                events.append(self._event(EventKind.GRANT_SHRUNK, job_id, slots=left))
        return events

    def _up(self, slot, _) -> list[Event]:
        return [Event(self._now_s, EventKind.SLOT_UP, slot=slot)]
