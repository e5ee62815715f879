"""Groups of jobs by attained service, for Tiresias and its elastic extension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from harness.contracts.decision import Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.attained_service.gittins import ServiceHistory
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.gang_plan import GangPlan
from systems.schedulers.common.news import refusals
from systems.schedulers.common.waiting import Key, WaitingJobs

TOLERANCE_S = 1e-6
"""Seconds by which a group change is made early.

The value is far above the rounding of sums of floats, and far below anything that happens to a job.
"""


@dataclass(slots=True)
class GroupedJob:
    """Record of one job."""

    key: Key
    gang: int
    """Slots that the job is granted when it starts.

    While the job waits, the plan counts its gang. While the job runs, the plan counts the slots it
    holds, but at most the gang.
    """
    num_slots: int = 0
    """Slots of its grant while the job is planned."""
    base_slot_s: float = 0.0
    """Attained service at its last promotion; group limits count from there."""
    service_slot_s: float = 0.0
    """Attained service at ``service_at_s``, for the history."""
    service_at_s: float = 0.0
    planned: bool = False
    """True while the job is granted slots."""
    turn: int = 0
    """Number of the job's starts, stops and resizes; schedule entries with an earlier number are
    void."""


class ServiceGroups:
    """The group of each job, and the time of the next group change.

    A job is in group ``i`` while its attained service is below ``limits_slot_s[i]``, and in the
    last group beyond. ``promote_after``: see ``Tiresias``. Inside a group jobs are in order of
    entry, or with ``history`` by falling Gittins index up to the group's limit. A job's index is
    computed when it enters a group, when it is suspended, and when the history's snapshot changes.
    """

    def __init__(
        self,
        limits_slot_s: Sequence[float],
        promote_after: float | None,
        history: ServiceHistory | None = None,
        waiting: WaitingJobs | None = None,
    ) -> None:
        """Start without any job; raise ``ValueError`` if limits do not ascend or the multiple is
        bad."""
        limits = tuple(float(limit) for limit in limits_slot_s)
        problems = []
        if any(low >= high for low, high in zip((0.0, *limits), limits, strict=False)):
            problems.append(
                f"queue_limits_slot_s is {list(limits)}; give slot-seconds that ascend from"
                " above 0, for example [500, 10000]"
            )
        if promote_after is not None and not promote_after > 0:
            problems.append(
                f"promote_after is {promote_after}; give a multiple of the executed time above 0,"
                " or null for no promotion"
            )
        if problems:
            raise ValueError("\n".join(problems))
        self.jobs: dict[str, GroupedJob] = {}
        self.plan = GangPlan(waiting)
        self._limits = limits
        self._promote_after = promote_after
        self._history = history
        self._demotions: list[tuple[float, str, int]] = []
        self._promotions: list[tuple[float, str, int]] = []

    def follow(self, view: ClusterView) -> dict[str, Grant | Suspend | Refuse]:
        """Update all jobs from the news; return refusals of jobs that can never fit."""
        if self._history is not None:
            self._learn(view, self._history)
        return refusals(view, self._look_again)

    def regroup(self, view: ClusterView) -> list[str]:
        """Make the group changes that are due; return the planned jobs that changed."""
        demoted = self._demote(view)
        self._promote(view)
        return demoted

    def started(self, view: ClusterView, job_id: str, num_slots: int | None = None) -> None:
        """Note that a waiting job was planned: with its gang, or with ``num_slots``."""
        job = self.jobs[job_id]
        job.planned = True
        self._size(view, job, job.gang if num_slots is None else num_slots)

    def resized(self, view: ClusterView, job_id: str, num_slots: int) -> None:
        """Note that a planned job was given another number of slots."""
        self._size(view, self.jobs[job_id], num_slots)

    def stopped(self, view: ClusterView, job_id: str) -> None:
        """Note that a planned job was taken out of the plan and waits."""
        job = self.jobs[job_id]
        job.planned = False
        job.turn += 1
        seen = view.jobs[job_id]
        self._take_service(view, job, seen)
        service = job.service_slot_s - job.base_slot_s
        key = job.key._replace(num_slots=job.gang)
        if self._history is not None:
            key = key._replace(rank=self._rank(service, key.level, view.time_s))
        if key != job.key:
            self._set_key(job, key)
        # A grant that was never carried out does not interrupt the wait.
        since_s = view.time_s if seen.slots else seen.waiting_since_s
        self._schedule_promotion(job, since_s, seen.executed_time_s(view.time_s))

    def withdraw(self, view: ClusterView, job_id: str) -> None:
        """Take a planned job out of the plan."""
        key = self.jobs[job_id].key
        self.plan.unplan(key)
        self.plan.waiting.put(key)
        self.stopped(view, job_id)

    def next_wake(self, now_s: float) -> float | None:
        """Return the time of the earliest future group change; None if there is none."""
        earliest = math.inf
        for heap, planned in ((self._demotions, True), (self._promotions, False)):
            self._due(heap, -math.inf, planned)
            if heap:
                earliest = min(earliest, heap[0][0])
        return None if math.isinf(earliest) else max(earliest, now_s + TOLERANCE_S)

    def _learn(self, view: ClusterView, history: ServiceHistory) -> None:
        changed = False
        for event in view.news:
            job = self.jobs.get(event.job_id)
            if event.kind is EventKind.JOB_FINISHED and job is not None:
                since_s = event.time_s - job.service_at_s if job.planned else 0.0
                changed |= history.add(job.service_slot_s + since_s * job.num_slots)
        if changed:
            for job_id, job in self.jobs.items():
                seen = view.jobs.get(job_id)
                if seen is not None:
                    service = seen.attained_service_slot_s(view.time_s) - job.base_slot_s
                    rank = self._rank(service, job.key.level, view.time_s)
                    self._set_key(job, job.key._replace(rank=rank))

    def _rank(self, service_slot_s: float, level: int, now_s: float) -> float:
        """Return the rank of a job within its group; a smaller rank is served earlier."""
        if self._history is None:
            return now_s
        limit = self._limits[level] if level < len(self._limits) else math.inf
        return -self._history.index(service_slot_s, limit - service_slot_s)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Update one job's entry from the view."""
        seen = view.jobs.get(job_id)
        job = self.jobs.get(job_id)
        if seen is None:
            if job is not None:
                self._forget(job)
            return None
        if job is None:
            spec = seen.spec
            num_slots = gang_slots(spec)
            refusal = refuse_misfit(spec, num_slots, view.cluster)
            if refusal is None:
                key = Key(0, self._rank(0.0, 0, spec.arrival_s), spec.arrival_s, job_id, num_slots)
                self.jobs[job_id] = GroupedJob(key, num_slots)
                self.plan.waiting.put(key)
            return refusal
        if job.planned != (seen.grant is not None):
            self._set_planned(job, seen.grant is not None)
        if seen.grant is not None and seen.grant.num_slots != job.num_slots:
            self._size(view, job, seen.grant.num_slots)
        if not job.planned and not seen.slots:
            self._take_service(view, job, seen)
            self._regroup(view, job, seen)
            self._schedule_promotion(job, seen.waiting_since_s, seen.executed_s)
        return None

    def _forget(self, job: GroupedJob) -> None:
        if job.planned:
            self.plan.unplan(job.key)
        else:
            self.plan.waiting.discard(job.key.job_id)
        del self.jobs[job.key.job_id]

    def _set_planned(self, job: GroupedJob, planned: bool) -> None:
        """Record that a job got or lost a grant without a decision of this scheduler."""
        if planned:
            self.plan.plan(job.key)
        else:
            self.plan.unplan(job.key)
            job.key = job.key._replace(num_slots=job.gang)
            self.plan.waiting.put(job.key)
        job.planned = planned
        job.num_slots = 0  # its size is set below
        job.turn += 1

    def _size(self, view: ClusterView, job: GroupedJob, num_slots: int) -> None:
        """Note the present slots of a planned job."""
        seen = view.jobs[job.key.job_id]
        self._take_service(view, job, seen)
        job.num_slots = num_slots
        job.turn += 1
        counted = min(num_slots, job.gang)
        if counted != job.key.num_slots:
            self._set_key(job, job.key._replace(num_slots=counted))
        self._schedule_demotion(view, job, seen)

    def _take_service(self, view: ClusterView, job: GroupedJob, seen: JobView) -> None:
        job.service_slot_s = seen.attained_service_slot_s(view.time_s)
        job.service_at_s = view.time_s

    def _set_key(self, job: GroupedJob, key: Key) -> None:
        if job.planned:
            self.plan.unplan(job.key)
            self.plan.plan(key)
        else:
            self.plan.waiting.put(key)
        job.key = key

    def _left_s(self, job: GroupedJob, seen: JobView, level: int, now_s: float) -> float:
        """Return the seconds until the job leaves group ``level`` if it holds its slots from now
        on."""
        if level >= len(self._limits):
            return math.inf
        service = seen.attained_service_slot_s(now_s) - job.base_slot_s
        return (self._limits[level] - service) / (job.num_slots if job.planned else job.gang)

    def _regroup(self, view: ClusterView, job: GroupedJob, seen: JobView) -> bool:
        """Move a job down to the group of its attained service; return whether it moved."""
        level = job.key.level
        while self._left_s(job, seen, level, view.time_s) <= TOLERANCE_S:
            level += 1
        if level == job.key.level:
            return False
        service = seen.attained_service_slot_s(view.time_s) - job.base_slot_s
        rank = self._rank(service, level, view.time_s)
        self._set_key(job, job.key._replace(level=level, rank=rank))
        return True

    def _schedule_demotion(self, view: ClusterView, job: GroupedJob, seen: JobView) -> None:
        left_s = self._left_s(job, seen, job.key.level, view.time_s)
        if left_s < math.inf:
            heappush(self._demotions, (view.time_s + left_s, job.key.job_id, job.turn))

    def _schedule_promotion(self, job: GroupedJob, since_s: float, executed_s: float) -> None:
        if self._promote_after is not None and job.key.level > 0:
            due_s = since_s + self._promote_after * executed_s
            heappush(self._promotions, (due_s, job.key.job_id, job.turn))

    def _due(
        self, heap: list[tuple[float, str, int]], until_s: float, planned: bool
    ) -> dict[str, GroupedJob]:
        """Remove the due entries from a schedule and return their jobs.

        Void entries are removed as well, so the entry on top is valid afterwards.
        """
        due: dict[str, GroupedJob] = {}
        while heap:
            due_s, job_id, turn = heap[0]
            job = self.jobs.get(job_id)
            if job is not None and job.turn == turn and job.planned == planned:
                if due_s > until_s:
                    break
                due[job_id] = job
            heappop(heap)
        return due

    def _demote(self, view: ClusterView) -> list[str]:
        demoted = []
        for job_id, job in self._due(
            self._demotions, view.time_s + TOLERANCE_S, planned=True
        ).items():
            seen = view.jobs[job_id]
            if self._regroup(view, job, seen):
                demoted.append(job_id)
            self._schedule_demotion(view, job, seen)
        return demoted

    def _promote(self, view: ClusterView) -> None:
        assert self._promote_after is not None or not self._promotions
        for job_id, job in self._due(
            self._promotions, view.time_s + TOLERANCE_S, planned=False
        ).items():
            seen = view.jobs[job_id]
            if seen.slots or job.key.level == 0:
                continue  # the job still gives its slots back; the news will report the end of that
            waited_s = view.time_s + TOLERANCE_S - seen.waiting_since_s
            if waited_s >= (self._promote_after or 0.0) * seen.executed_s:
                job.base_slot_s = seen.attained_slot_s
                rank = self._rank(0.0, 0, view.time_s)
                self._set_key(job, job.key._replace(level=0, rank=rank))
            else:
                self._schedule_promotion(job, seen.waiting_since_s, seen.executed_s)
