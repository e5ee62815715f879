"""Tiresias: discretised two-dimensional least attained service."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from harness.contracts.scheduler import (
    ClusterView,
    Decision,
    Grant,
    JobView,
    Knowledge,
    Refuse,
    Requirement,
    Suspend,
)
from systems.schedulers.gang import gang_slots, refuse_misfit
from systems.schedulers.news import touched
from systems.schedulers.waiting import Key, WaitingJobs

TOLERANCE_S = 1e-6
"""A group change that is due within this time is made now: far above the rounding of sums
of floats, far below anything that happens to a job."""


@dataclass(slots=True)
class _Job:
    """What the scheduler remembers of one job."""

    key: Key
    gang: int
    """Slots that it is granted; its key says what it demands or holds, which is less once
    some of its workers have died."""
    base_slot_s: float = 0.0
    """Attained service at its last promotion; group limits count from there."""
    planned: bool = False
    """Whether it is granted slots."""
    turn: int = 0
    """Counts its starts and stops; what was scheduled in an earlier turn is void."""


class Tiresias:
    """Jobs that have had the least slot-seconds run first, at the slots they requested.

    A job is in group ``i`` while its attained service is below ``queue_limits_slot_s[i]`` and
    in the last group beyond. Every arrival, end and group change makes a new plan: groups in
    order, inside a group in order of entry into it, each job gets its requested slots if they
    fit and is skipped if not; running jobs outside the plan are suspended.

    ``promote_after``: a waiting job outside the first group returns there once it has waited
    this many times as long as it has executed; its service then counts from zero, its executed
    time does not (or it would thrash). None: never.

    Source: Gu et al., NSDI '19, as the EDL paper describes it (quanta of 500 and 10,000
    GPU-seconds, the default here; NSDI's own evaluation uses two groups and 3,200). Open
    in the text and chosen here: limits on cumulative service; FIFO by time of entry into the
    group, then by arrival; the multiple of the executed time (the text says only that a job not
    scheduled for long returns); a job's group stands while its suspension is under way. A job
    that the whole cluster cannot hold is refused. A job that lost some of its workers goes on
    with the others until it is next suspended; then it waits for its whole gang again.

    The plan is not rebuilt but repaired. For one demand, what "skip if it does not fit" takes
    is a prefix of that demand's queue. So the plan is right exactly when, for each demand q,
    the free slots and the slots of planned jobs behind q's first waiting job are together
    fewer than q. Starting the best job that breaks this, with evictions from the tail, until
    none does gives the plan that a rebuild would give.

    Raises:
        ValueError: limits that do not ascend from above 0, or a negative ``promote_after``.
    """

    needs: frozenset[Knowledge] = frozenset()
    requires: frozenset[Requirement] = frozenset({Requirement.SUSPEND})
    wants_progress = False

    def __init__(
        self,
        queue_limits_slot_s: Sequence[float] = (500.0, 10_000.0),
        promote_after: float | None = None,
    ) -> None:
        limits = tuple(float(limit) for limit in queue_limits_slot_s)
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
        self._limits = limits
        self._promote_after = promote_after
        self._jobs: dict[str, _Job] = {}
        self._waiting = WaitingJobs()
        self._planned: list[Key] = []
        self._demotions: list[tuple[float, str, int]] = []
        self._promotions: list[tuple[float, str, int]] = []

    def decide(self, view: ClusterView) -> Decision:
        """Make the group changes that are due, then repair the plan."""
        refusals: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in touched(view):
            refusal = self._look_again(view, job_id)
            if refusal is not None:
                refusals[job_id] = refusal
        self._demote(view)
        self._promote(view)
        started, evicted = self._repair(view.num_free)
        changes: dict[str, Grant | Suspend | Refuse] = refusals
        for key in evicted:
            self._stop(view, key.job_id)
            changes[key.job_id] = Suspend()
        for key in started:
            self._start(view, key.job_id)
            changes[key.job_id] = Grant(key.num_slots)
        return Decision(changes, self._next_wake(view.time_s))

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Bring one job's entry in line with the view."""
        seen = view.jobs.get(job_id)
        job = self._jobs.get(job_id)
        if seen is None:
            if job is not None:
                self._forget(job)
            return None
        if job is None:
            spec = seen.spec
            num_slots = gang_slots(spec)
            refusal = refuse_misfit(spec, num_slots, view.cluster)
            if refusal is None:
                key = Key(0, spec.arrival_s, spec.arrival_s, job_id, num_slots)
                self._jobs[job_id] = _Job(key, num_slots)
                self._waiting.put(key)
            return refusal
        if job.planned != (seen.grant is not None):
            self._set_planned(job, seen.grant is not None)
            if job.planned:
                self._schedule_demotion(view, job, seen)
        if seen.grant is not None and seen.grant.num_slots != job.key.num_slots:
            self._set_key(job, job.key._replace(num_slots=seen.grant.num_slots))
            job.turn += 1
            self._schedule_demotion(view, job, seen)
        if not job.planned and not seen.slots:
            self._regroup(view, job, seen)
            self._schedule_promotion(job, seen.waiting_since_s, seen.executed_s)
        return None

    def _forget(self, job: _Job) -> None:
        if job.planned:
            self._unplan(job.key)
        else:
            self._waiting.discard(job.key.job_id)
        del self._jobs[job.key.job_id]

    def _unplan(self, key: Key) -> None:
        del self._planned[bisect_left(self._planned, key)]

    def _set_planned(self, job: _Job, planned: bool) -> None:
        """Follow a grant that changed without a decision of ours."""
        if planned:
            self._waiting.discard(job.key.job_id)
            insort(self._planned, job.key)
        else:
            self._unplan(job.key)
            job.key = job.key._replace(num_slots=job.gang)
            self._waiting.put(job.key)
        job.planned = planned
        job.turn += 1

    def _set_key(self, job: _Job, key: Key) -> None:
        if job.planned:
            self._unplan(job.key)
            insort(self._planned, key)
        else:
            self._waiting.put(key)
        job.key = key

    def _left_s(self, job: _Job, seen: JobView, level: int, now_s: float) -> float:
        """Time until the job leaves group ``level`` if it holds its slots from now on."""
        if level >= len(self._limits):
            return math.inf
        service = seen.attained_service_slot_s(now_s) - job.base_slot_s
        return (self._limits[level] - service) / job.key.num_slots

    def _regroup(self, view: ClusterView, job: _Job, seen: JobView) -> None:
        """Move a job down to the group of its attained service."""
        level = job.key.level
        while self._left_s(job, seen, level, view.time_s) <= TOLERANCE_S:
            level += 1
        if level != job.key.level:
            self._set_key(job, job.key._replace(level=level, since_s=view.time_s))

    def _schedule_demotion(self, view: ClusterView, job: _Job, seen: JobView) -> None:
        left_s = self._left_s(job, seen, job.key.level, view.time_s)
        if left_s < math.inf:
            heappush(self._demotions, (view.time_s + left_s, job.key.job_id, job.turn))

    def _schedule_promotion(self, job: _Job, since_s: float, executed_s: float) -> None:
        if self._promote_after is not None and job.key.level > 0:
            due_s = since_s + self._promote_after * executed_s
            heappush(self._promotions, (due_s, job.key.job_id, job.turn))

    def _due(
        self, heap: list[tuple[float, str, int]], until_s: float, planned: bool
    ) -> dict[str, _Job]:
        """Take what is due off a schedule; leaves a valid entry on top, or none."""
        due: dict[str, _Job] = {}
        while heap:
            due_s, job_id, turn = heap[0]
            job = self._jobs.get(job_id)
            if job is not None and job.turn == turn and job.planned == planned:
                if due_s > until_s:
                    break
                due[job_id] = job
            heappop(heap)
        return due

    def _demote(self, view: ClusterView) -> None:
        for job_id, job in self._due(
            self._demotions, view.time_s + TOLERANCE_S, planned=True
        ).items():
            seen = view.jobs[job_id]
            self._regroup(view, job, seen)
            self._schedule_demotion(view, job, seen)

    def _promote(self, view: ClusterView) -> None:
        assert self._promote_after is not None or not self._promotions
        for job_id, job in self._due(
            self._promotions, view.time_s + TOLERANCE_S, planned=False
        ).items():
            seen = view.jobs[job_id]
            if seen.slots or job.key.level == 0:
                continue  # still giving its slots back: the end of that is in the news
            waited_s = view.time_s + TOLERANCE_S - seen.waiting_since_s
            if waited_s >= (self._promote_after or 0.0) * seen.executed_s:
                job.base_slot_s = seen.attained_slot_s
                self._set_key(job, job.key._replace(level=0, since_s=view.time_s))
            else:
                self._schedule_promotion(job, seen.waiting_since_s, seen.executed_s)

    def _repair(self, free: int) -> tuple[list[Key], list[Key]]:
        """Make the plan right; returns who is to start and who is to stop, best first."""
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
            self._waiting.discard(key.job_id)
            insort(self._planned, key)
            if key in evicted:
                evicted.remove(key)
            else:
                started.add(key)
        return sorted(started), sorted(evicted)

    def _evict(self, started: set[Key], evicted: set[Key]) -> int:
        """Take the last job out of the plan; returns its slots."""
        key = self._planned.pop()
        self._waiting.put(key)
        if key in started:
            started.remove(key)
        else:
            evicted.add(key)
        return key.num_slots

    def _best_wronged(self, free: int) -> Key | None:
        """The best waiting job that would fit if all planned jobs behind it made way."""
        best: Key | None = None
        planned, waiting = self._planned, self._waiting
        index, available = len(planned), free
        for demand in waiting.demands():
            head = waiting.head(demand)
            if head is None:
                continue
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

    def _start(self, view: ClusterView, job_id: str) -> None:
        job = self._jobs[job_id]
        job.planned = True
        job.turn += 1
        self._schedule_demotion(view, job, view.jobs[job_id])

    def _stop(self, view: ClusterView, job_id: str) -> None:
        job = self._jobs[job_id]
        job.planned = False
        job.turn += 1
        if job.key.num_slots != job.gang:
            self._set_key(job, job.key._replace(num_slots=job.gang))
        seen = view.jobs[job_id]
        # A grant that never came true does not interrupt the wait.
        since_s = view.time_s if seen.slots else seen.waiting_since_s
        self._schedule_promotion(job, since_s, seen.executed_time_s(view.time_s))

    def _next_wake(self, now_s: float) -> float | None:
        """The earliest group change to come."""
        earliest = math.inf
        for heap, planned in ((self._demotions, True), (self._promotions, False)):
            self._due(heap, -math.inf, planned)
            if heap:
                earliest = min(earliest, heap[0][0])
        return None if math.isinf(earliest) else max(earliest, now_s + TOLERANCE_S)
