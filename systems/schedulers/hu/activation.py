"""Activation times of a node allocator: periodic, and when nodes become free."""

from __future__ import annotations

import math
from collections.abc import Callable

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.view import ClusterView
from systems.schedulers.hu.pool import JobPool

Allocate = Callable[[ClusterView, JobPool], dict[str, Grant | Suspend]]
"""Type of the allocator: it returns the changes to make now, jobs that give nodes up first."""

_FREEING = frozenset(
    {
        EventKind.SLOT_UP,
        EventKind.JOB_FINISHED,
        EventKind.JOB_FAILED,
        EventKind.JOB_CANCELLED,
        EventKind.GRANT_LOST,
        EventKind.GRANT_SHRUNK,
        EventKind.CHANGE_FAILED,
    }
)


class Activation:
    """Caller of an allocator at multiples of ``every_s``; in between, freed nodes go to the queue.

    Source: Hu et al., sections 2 and 5.1 and Fig. 8. Nodes that become free go ``reaction_s`` later
    to the first job that waits, as many as it can use, then to the next. A job that arrives while
    nodes are idle starts at once.
    """

    def __init__(self, every_s: float, reaction_s: float, most_nodes: int) -> None:
        self._every_s = every_s
        self._reaction_s = reaction_s
        self._pool = JobPool(most_nodes)
        self._due_s: float | None = None
        """Time of the next activation; None while no job is active."""
        self._open_s = 0.0
        """Time before which idle nodes are not handed out."""

    def decide(self, view: ClusterView, allocate: Allocate) -> Decision:
        """Update the jobs from the news, then do the activations that are due."""
        pool, now_s = self._pool, view.time_s
        changes: dict[str, Grant | Suspend | Refuse] = {**pool.update(view)}
        if any(event.kind in _FREEING for event in view.news):
            self._open_s = now_s + self._reaction_s
        if pool.is_empty():
            self._due_s = None
            return Decision(changes)
        if self._due_s is None:
            self._due_s = self._multiple(now_s)
        decided: dict[str, Grant | Suspend] = {}
        if now_s >= self._due_s:
            self._due_s = self._multiple(math.nextafter(now_s, math.inf))
            decided = allocate(view, pool)
        elif now_s >= self._open_s:
            given = pool.hand_out(view.num_free, pool.queue())
            decided = {job_id: Grant(num_nodes) for job_id, num_nodes in given.items()}
        pool.follow(decided)
        changes |= decided
        wake_s = self._due_s
        if now_s < self._open_s and pool.has_queue():
            wake_s = min(wake_s, self._open_s)
        return Decision(changes, wake_s)

    def _multiple(self, from_s: float) -> float:
        """Return the first multiple of the period at or after a time."""
        number = math.ceil(from_s / self._every_s)
        while number * self._every_s < from_s:  # correct a quotient that was rounded down
            number += 1
        return number * self._every_s


def period_problems(every_s: float, reaction_s: float, most_nodes: int) -> list[str]:
    """Return the mistakes in the options that both allocators share, one text each."""
    problems = []
    if not 0 < every_s < math.inf:
        problems.append(f"every_s is {every_s}; give the seconds between activations, as 300")
    if not 0 <= reaction_s < math.inf:
        problems.append(f"reaction_s is {reaction_s}; give seconds from 0 on, as 1")
    if most_nodes < 1:
        problems.append(f"most_nodes is {most_nodes}; a job needs at least 1 node")
    return problems
