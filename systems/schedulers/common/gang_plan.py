"""Plan of the jobs that run, by priority and if they fit; it is repaired instead of rebuilt."""

from __future__ import annotations

from bisect import bisect_left, insort

from systems.schedulers.common.waiting import Key, WaitingJobs


class GangPlan:
    """Every job by its key: planned (granted slots) or waiting.

    The plan equals the plan that a rebuild would give. In order of the keys, a job gets the slots
    of its key if they fit, and is skipped otherwise.

    Among jobs of one demand, this rule always takes a prefix of their queue. So the plan is right
    exactly when one condition holds for each demand q. Free slots and the slots of planned jobs
    behind q's first waiting job are together fewer than q. ``repair`` starts the best job that
    breaks this and evicts from the tail, until no job breaks it.
    """

    def __init__(self, waiting: WaitingJobs | None = None) -> None:
        self.waiting = WaitingJobs() if waiting is None else waiting
        self.planned: list[Key] = []
        """Keys of the planned jobs, ascending."""

    def plan(self, key: Key) -> None:
        """Mark a job as planned; it no longer waits."""
        self.waiting.discard(key.job_id)
        insort(self.planned, key)

    def unplan(self, key: Key) -> None:
        """Remove a planned job; it is then neither planned nor waiting."""
        del self.planned[bisect_left(self.planned, key)]

    def repair(self, free: int) -> tuple[list[Key], list[Key]]:
        """Restore the plan's condition; return the jobs to start and the jobs to stop, best first.

        ``free``: slots that no planned job holds; below 0, planned jobs must go.
        """
        started: set[Key] = set()
        evicted: set[Key] = set()
        while True:
            while free < 0:
                free += self._evict(started, evicted)
            key = self._best_wronged(free)
            if key is None:
                break
            while free < key.num_slots:
                free += self._evict(started, evicted)
            free -= key.num_slots
            self.plan(key)
            if key in evicted:
                evicted.remove(key)
            else:
                started.add(key)
        return sorted(started), sorted(evicted)

    def _evict(self, started: set[Key], evicted: set[Key]) -> int:
        """Move the last job of the plan to the waiting jobs; return its slots."""
        key = self.planned.pop()
        self.waiting.put(key)
        if key in started:
            started.remove(key)
        else:
            evicted.add(key)
        return key.num_slots

    def _best_wronged(self, free: int) -> Key | None:
        """Return the best waiting job that would fit if all planned jobs behind it were taken
        out."""
        best: Key | None = None
        planned = self.planned
        index, available = len(planned), free
        for head in self.waiting.best_of_each():
            demand = head.num_slots
            while available < demand:
                if index == 0:
                    return best
                index -= 1
                available += planned[index].num_slots
            # planned[index:] is the shortest tail that makes room for this demand
            is_behind = index == len(planned) or head < planned[index]
            if is_behind and (best is None or head < best):
                best = head
        return best
