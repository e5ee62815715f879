"""Earliest deadline first."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import ClassVar

from sortedcontainers import SortedList

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView, Throughput
from systems.schedulers.common.gang import gang_slots, least_slots, refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.sizes import counts_within, useful_counts

_Order = tuple[float, float, str]


class Edf:
    """EDF: jobs in order of deadline; each takes as many slots as still raise its throughput.

    Jobs without a deadline come last; ties break by arrival, then job id. A missed deadline does
    not move a job back. A job that does not fit into the slots that are left is skipped.

    ``preemptive``: every decision plans the whole cluster from nothing, and running jobs may be
    shrunk or suspended; otherwise a running job keeps at least the slots it has.
    ``elastic``: size jobs by their throughput curve; otherwise each gets the slots it requested, as
    do jobs that are not elastic.

    Source: the EDF baseline of Gu et al., "ElasticFlow", ASPLOS 2023, section 6.1; its text calls
    EDF not elastic although it sizes jobs (section 6.2). The paper leaves these open; chosen here:
    preemption; planning at every event; on a curve with dips, only counts that are faster than all
    smaller counts are used. A job whose least size exceeds the whole cluster is refused. A job that
    lost some of its workers is sized again; if not ``elastic``, it continues with the others.

    Checked: ``exact``, on figure 3 of the paper.
    """

    checked: ClassVar[str] = "exact"

    def __init__(self, preemptive: bool = True, elastic: bool = True) -> None:
        self._preemptive = preemptive
        self._elastic = elastic
        self.needs = frozenset(
            {Knowledge.DEADLINE} | ({Knowledge.THROUGHPUT} if elastic else set())
        )
        requires = set()
        if preemptive:
            requires.add(Requirement.SUSPEND)
        if elastic:
            requires.add(Requirement.RESCALE)
        self.requires = frozenset(requires)
        self.wants_progress = False
        self._order: SortedList[_Order] = SortedList()
        self._place: dict[str, _Order] = {}
        self._granted: dict[str, int] = {}
        self._useful: dict[str, tuple[Throughput, list[int]]] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Hand out slots by deadline until none is left."""
        changes = refusals(view, self._look_again)
        plan = self._plan(view)
        if self._preemptive:
            for order in sorted(self._place[job_id] for job_id in self._granted.keys() - plan):
                job_id = order[-1]
                del self._granted[job_id]
                changes[job_id] = Suspend()
        for job_id, num_slots in plan.items():
            if self._granted.get(job_id) != num_slots:
                self._granted[job_id] = num_slots
                changes[job_id] = Grant(num_slots)
        return Decision(changes)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        job = view.jobs.get(job_id)
        if job is None:
            self._forget(job_id)
            return None
        if job_id not in self._place:
            spec = job.spec
            least = least_slots(spec) if self._elastic else gang_slots(spec)
            refusal = refuse_misfit(spec, least, view.cluster)
            if refusal is not None:
                return refusal
            deadline_s = math.inf if spec.deadline_s is None else spec.deadline_s
            self._place[job_id] = (deadline_s, spec.arrival_s, job_id)
            self._order.add(self._place[job_id])
        if job.grant is None:
            self._granted.pop(job_id, None)
        else:
            self._granted[job_id] = job.grant.num_slots
        return None

    def _forget(self, job_id: str) -> None:
        order = self._place.pop(job_id, None)
        if order is not None:
            self._order.remove(order)
        self._granted.pop(job_id, None)
        self._useful.pop(job_id, None)

    def _plan(self, view: ClusterView) -> dict[str, int]:
        """Return the slots of every job that gets slots, by deadline."""
        free = view.num_usable if self._preemptive else view.num_free
        plan: dict[str, int] = {}
        for *_, job_id in self._order:
            if free <= 0:
                break
            kept = 0 if self._preemptive else self._granted.get(job_id, 0)
            num_slots = max(kept, self._size(view.jobs[job_id], kept + free, view))
            if num_slots > 0:
                plan[job_id] = num_slots
                free -= num_slots - kept
        return plan

    def _size(self, job: JobView, most: int, view: ClusterView) -> int:
        """Return the slots for one job when at most ``most`` are available; 0 if it cannot run on
        them."""
        if not (self._elastic and job.spec.elastic):
            num_slots = gang_slots(job.spec)
            if not self._elastic:
                num_slots = min(num_slots, self._granted.get(job.job_id, num_slots))
            return num_slots if num_slots <= most else 0
        useful = self._useful_counts(job, view.cluster.num_slots)
        fitting = bisect_right(useful, most)
        return useful[fitting - 1] if fitting else 0

    def _useful_counts(self, job: JobView, num_slots: int) -> list[int]:
        """Return the counts in the job's range that are faster than every smaller count,
        ascending."""
        curve = job.throughput
        assert curve is not None, "an elastic Edf declares that it needs THROUGHPUT"
        known = self._useful.get(job.job_id)
        if known is not None and known[0] is curve:
            return known[1]
        useful = useful_counts(curve, counts_within(job.spec, num_slots))
        self._useful[job.job_id] = (curve, useful)
        return useful
