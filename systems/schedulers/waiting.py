"""Waiting jobs, best first, for each demand on its own."""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import NamedTuple


class Key(NamedTuple):
    """How jobs are ordered: smaller is served earlier. Ties end at the unique job id."""

    level: int
    rank: float
    """Order within the level: the time of entry into it, or an index."""
    arrival_s: float
    job_id: str
    num_slots: int
    """The job's demand; carried along, never reached by a comparison."""


class WaitingJobs:
    """A priority queue that can name the best waiting job of every demand.

    There are few demands (1, 2, 4, 8, ...) and many jobs: one heap per demand finds the best
    job that fits into any number of slots without looking at the others. What was removed or
    replaced stays in its heap until it comes to the top.
    """

    def __init__(self) -> None:
        self._heaps: dict[int, list[Key]] = {}
        self._demands: list[int] = []
        self._keys: dict[str, Key] = {}
        self._heads: list[Key] | None = []
        """The best of every demand that has one, by demand; None: to be looked up."""

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
        """Remove a job if it is here."""
        key = self._keys.pop(job_id, None)
        if key is not None and self._heads is not None:
            self._note_removed(key, self._heads)

    def _note_removed(self, key: Key, heads: list[Key]) -> None:
        for head in heads:
            if head is key:
                self._heads = None
                return

    def best_of_each(self) -> list[Key]:
        """The best job of every demand that any has, by demand; to be read at once."""
        if self._heads is None:
            found = map(self.head, self._demands)
            self._heads = [key for key in found if key is not None]
        return self._heads

    def key_of(self, job_id: str) -> Key | None:
        """The present key of a job that is here."""
        return self._keys.get(job_id)

    def demands(self) -> list[int]:
        """All demands seen so far, ascending."""
        return self._demands

    def head(self, num_slots: int) -> Key | None:
        """The best job that demands exactly ``num_slots``."""
        heap = self._heaps[num_slots]
        keys = self._keys
        while heap:
            key = heap[0]
            if keys.get(key.job_id) is key:
                return key
            heappop(heap)
        return None

    def first(self, at_most: int | None = None) -> Key | None:
        """The best job of all, or of those that demand no more than ``at_most`` slots."""
        best: Key | None = None
        for demand in self._demands:
            if at_most is not None and demand > at_most:
                break
            head = self.head(demand)
            if head is not None and (best is None or head < best):
                best = head
        return best
