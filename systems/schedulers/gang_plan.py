"""Who runs: jobs by priority, each if it fits; a plan that is repaired, not rebuilt."""

from __future__ import annotations

from bisect import bisect_left, insort

from systems.schedulers.waiting import Key, WaitingJobs


class GangPlan:
    """Every job by its key: planned (granted slots) or waiting.

    The plan that is kept is the one a rebuild would give: in order of the keys, a job gets the
    slots of its key if they fit and is skipped if not.

    For one demand, what "skip if it does not fit" takes is a prefix of that demand's queue. So
    the plan is right exactly when, for each demand q, the free slots and the slots of planned
    jobs behind q's first waiting job are together fewer than q. Starting the best job that
    breaks this, with evictions from the tail, until none does gives the rebuilt plan.
    """

    def __init__(self, waiting: WaitingJobs | None = None) -> None:
        self.waiting = WaitingJobs() if waiting is None else waiting
        self.planned: list[Key] = []
        """Ascending."""

    def plan(self, key: Key) -> None:
        """Note a job as planned."""
        self.waiting.discard(key.job_id)
        insort(self.planned, key)

    def unplan(self, key: Key) -> None:
        """Take a planned job out; it is nowhere then."""
        del self.planned[bisect_left(self.planned, key)]

    def repair(self, free: int) -> tuple[list[Key], list[Key]]:
        """Make the plan right; returns who is to start and who is to stop, best first.

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
        """Take the last job out of the plan; returns its slots."""
        key = self.planned.pop()
        self.waiting.put(key)
        if key in started:
            started.remove(key)
        else:
            evicted.add(key)
        return key.num_slots

    def _best_wronged(self, free: int) -> Key | None:
        """The best waiting job that would fit if all planned jobs behind it made way."""
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
