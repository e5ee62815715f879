"""Queue of waiting jobs, best first, kept apart for each kind of job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from systems.schedulers.common.waiting import Key, WaitingJobs

Kind = tuple[object, ...]


class WaitingKinds(WaitingJobs):
    """``WaitingJobs`` that also find the best job of every kind.

    To the scheduler, jobs of one kind differ only in their place in the queue. If a job cannot be
    served, the later jobs of its kind need not be tried.
    """

    def __init__(self, kind_of: Callable[[Key], Kind]) -> None:
        super().__init__()
        self._kind_of = kind_of
        self._by_kind: dict[Kind, list[Key]] = {}

    def put(self, key: Key) -> None:
        """Add a job, or give it a new key; see ``WaitingJobs.put``."""
        super().put(key)
        heap = self._by_kind.setdefault(self._kind_of(key), [])
        if len(heap) > 4 * len(self) + 64:  # most entries are stale
            heap[:] = [one for one in heap if self.key_of(one.job_id) is one]
            heapify(heap)
        heappush(heap, key)

    def heads(self) -> Iterator[tuple[Kind, Key]]:
        """Yield the best job of every kind that has any."""
        for kind in self._by_kind:
            key = self.head_of(kind)
            if key is not None:
                yield kind, key

    def head_of(self, kind: Kind) -> Key | None:
        """Return the best job of one kind."""
        heap = self._by_kind[kind]
        while heap:
            key = heap[0]
            if self.key_of(key.job_id) is key:
                return key
            heappop(heap)
        return None
