"""Jobs of a node allocator: jobs with nodes, waiting jobs, and their legal counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sortedcontainers import SortedList

from harness.contracts.decision import Grant, Refuse, Suspend
from harness.contracts.job import JobSpec
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import least_slots, refuse_misfit
from systems.schedulers.common.news import touched

_Order = tuple[float, str]


def legal_counts(spec: JobSpec, most: int) -> tuple[int, ...]:
    """Return the node counts a job may hold, ascending: powers of two in its range up to ``most``.

    A job that is not elastic has the count it requested. A job whose range has no such power, or
    whose least count is above ``most``, has its least count.
    """
    if not spec.elastic:
        return (spec.requested_slots,)
    high = min(most, spec.max_slots or most)
    powers = tuple(1 << exponent for exponent in range(high.bit_length()))
    legal = tuple(count for count in powers if spec.min_slots <= count <= high)
    return legal or (spec.min_slots,)


class JobPool:
    """Active jobs, updated from the news; the cost of an update grows with the news only."""

    def __init__(self, most_nodes: int) -> None:
        self._most_nodes = most_nodes
        self._waiting: SortedList[_Order] = SortedList()
        self._training: SortedList[_Order] = SortedList()
        self._counts: dict[str, tuple[int, ...]] = {}
        self._orders: dict[str, _Order] = {}

    def update(self, view: ClusterView) -> dict[str, Refuse]:
        """Update the jobs from the news; return refusals of jobs that can never be served."""
        refusals: dict[str, Refuse] = {}
        for job_id in touched(view):
            job = view.jobs.get(job_id)
            if job is not None and job_id not in self._counts:
                refusal = refuse_misfit(job.spec, least_slots(job.spec), view.cluster)
                if refusal is not None:
                    refusals[job_id] = refusal
                    continue
                most = min(self._most_nodes, view.cluster.num_slots)
                self._counts[job_id] = legal_counts(job.spec, most)
            self._place(job_id, job)
        return refusals

    def _place(self, job_id: str, job: JobView | None) -> None:
        if job is None:
            self._counts.pop(job_id, None)
            order = self._orders.pop(job_id, None)
            if order is not None:
                self._waiting.discard(order)
                self._training.discard(order)
            return
        order = self._orders[job_id] = job.spec.order
        home, other = self._training, self._waiting
        if job.grant is None:
            home, other = other, home
        other.discard(order)
        if order not in home:
            home.add(order)

    def is_empty(self) -> bool:
        """Return whether no job is active."""
        return not self._counts

    def has_queue(self) -> bool:
        """Return whether a job waits."""
        return bool(self._waiting)

    def queue(self) -> Iterator[str]:
        """Return the jobs that wait, first in, first out."""
        return (job_id for _, job_id in self._waiting)

    def training(self) -> Iterator[str]:
        """Return the jobs with a grant, by arrival."""
        return (job_id for _, job_id in self._training)

    def counts(self, job_id: str) -> tuple[int, ...]:
        """Return the legal node counts of a job, ascending."""
        return self._counts[job_id]

    def follow(self, changes: Mapping[str, Grant | Suspend | Refuse]) -> None:
        """Record the decisions that were just made."""
        for job_id, change in changes.items():
            if isinstance(change, Refuse):
                continue
            order = self._orders[job_id]
            self._waiting.discard(order)
            self._training.discard(order)
            (self._training if isinstance(change, Grant) else self._waiting).add(order)

    def hand_out(self, num_nodes: int, waiting: Iterable[str]) -> dict[str, int]:
        """Give the first waiting job as many nodes as possible, then the next.

        No job overtakes another.
        """
        grants: dict[str, int] = {}
        for job_id in waiting:
            fitting = [count for count in self._counts[job_id] if count <= num_nodes]
            if not fitting:
                break
            grants[job_id] = fitting[-1]
            num_nodes -= fitting[-1]
        return grants
