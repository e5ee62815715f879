"""Queue of waiting jobs, best first, kept apart for each demand."""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import NamedTuple


class Key(NamedTuple):
    """Sort key of a job: the smaller key is served first. Ties end at the unique job id."""

    level: int
    rank: float
    """Order within the level: the time of entry into it, or an index."""
    arrival_s: float
    job_id: str
    num_slots: int
    """The job's demand. No comparison reaches it, since the job id before it is unique."""


class WaitingJobs:
    """Priority queue that also finds the best waiting job of every demand.

    There are few demands (1, 2, 4, 8, ...) and many jobs. With one heap per demand, the best job
    that fits into any number of slots is found without a search of all jobs. A removed or replaced
    key stays in its heap until it comes to the top.
    """

    def __init__(self) -> None:
        self._heaps: dict[int, list[Key]] = {}
        self._demands: list[int] = []
        self._keys: dict[str, Key] = {}
        self._heads: list[Key] | None = []
        """Best job of every demand that has any, by demand; None: to be computed again."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def put(self, key: Key) -> None:
        """Add a job, or give it a new key."""
        if self._heads is not None and (before := self._keys.get(key.job_id)) is not None:
            self._note_removed(before, self._heads)
        self._keys[key.job_id] = key
        heap = self._heaps.get(key.num_slots)
        if heap is None:
            heap = self._heaps[key.num_slots] = []
            insort(self._demands, key.num_slots)
        heappush(heap, key)
        if self._heads is not None and heap[0] is key:
            self._heads = None

    def discard(self, job_id: str) -> None:
        """Remove a job if it is in the queue."""
        key = self._keys.pop(job_id, None)
        if key is not None and self._heads is not None:
            self._note_removed(key, self._heads)

    def _note_removed(self, key: Key, heads: list[Key]) -> None:
        for head in heads:
            if head is key:
                self._heads = None
                return

    def best_of_each(self) -> list[Key]:
        """Return the best job of every demand that has any, by demand.

        The caller must read the list before it changes the queue, since the list is not a copy.
        """
        if self._heads is None:
            found = map(self.head, self._demands)
            self._heads = [key for key in found if key is not None]
        return self._heads

    def key_of(self, job_id: str) -> Key | None:
        """Return the present key of a job, or None if it is not in the queue."""
        return self._keys.get(job_id)

    def demands(self) -> list[int]:
        """Return all demands seen so far, ascending."""
        return self._demands

    def head(self, num_slots: int) -> Key | None:
        """Return the best job that demands exactly ``num_slots``."""
        heap = self._heaps[num_slots]
        keys = self._keys
        while heap:
            key = heap[0]
            if keys.get(key.job_id) is key:
                return key
            heappop(heap)
        return None

    def first(self, at_most: int | None = None) -> Key | None:
        """Return the best job of all, or of those that demand at most ``at_most`` slots."""
        best: Key | None = None
        for demand in self._demands:
            if at_most is not None and demand > at_most:
                break
            head = self.head(demand)
            if head is not None and (best is None or head < best):
                best = head
        return best
