"""Records of jobs that share-based schedulers keep between decisions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from sortedcontainers import SortedList

from harness.cluster import Cluster
from harness.contracts.decision import Grant, Refuse, Suspend
from harness.contracts.job import JobSpec
from harness.contracts.view import ClusterView, Throughput
from systems.schedulers.common.gang import least_slots, refuse_misfit
from systems.schedulers.common.news import arrived_by, touched
from systems.schedulers.common.sizes import Levels, levels_of
from systems.schedulers.shares.growth import grow
from systems.schedulers.shares.min_share import Demand, SharePlan

ROUNDING = 1e-9
"""Relative rounding error of times and of work that are sums of thousands of terms."""
BY_DEADLINE, _BY_ARRIVAL = attrgetter("by_deadline"), attrgetter("spec.order")


@dataclass(slots=True)
class ShareJob:
    """Record of a live job."""

    spec: JobSpec
    by_deadline: tuple[float, float, str]
    demand: Demand
    """The job's work and deadline for the planning."""

    @property
    def job_id(self) -> str:
        """Identity of the job."""
        return self.spec.job_id

    def needs(self, remaining_samples: float) -> None:
        """Set the demand to the remaining work, minus the rounding error of that sum."""
        old, rounding = self.demand, ROUNDING * self.spec.work_samples
        need = remaining_samples - rounding
        self.demand = Demand(old.levels, need if need > rounding else rounding, old.end, old.order)


class ShareBook:
    """Live jobs by their promises, and the slots they were granted.

    Args:
        slot_s: length of a time slot, seconds.
        powers_of_two: true if a job's slots are always a power of two.
        margin_s: seconds before its deadline by which a job should end.
    """

    def __init__(self, slot_s: float, powers_of_two: bool, margin_s: float) -> None:
        self.arrived: list[ShareJob] = []
        """Jobs that await their first decision, in order of arrival."""
        self.promised: SortedList[ShareJob] = SortedList(key=BY_DEADLINE)
        """Jobs whose deadline is guaranteed, by deadline."""
        self.others: SortedList[ShareJob] = SortedList(key=_BY_ARRIVAL)
        """Jobs that get remaining slots, by arrival."""
        self._slot_s = slot_s
        self._powers_of_two = powers_of_two
        self._margin_s = margin_s
        self._jobs: dict[str, ShareJob] = {}
        self._granted: dict[str, int] = {}
        self._levels: dict[tuple[Throughput, int, int | None, bool, int], Levels] = {}

    def look_again(self, view: ClusterView) -> dict[str, Grant | Suspend | Refuse]:
        """Update the jobs from the news; return refusals of jobs that can never fit into the
        cluster."""
        refusals: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in touched(view):
            job = view.jobs.get(job_id)
            if job is None:
                self._forget(job_id)
                continue
            if job_id not in self._jobs:
                refusal = refuse_misfit(job.spec, least_slots(job.spec), view.cluster)
                if refusal is not None:
                    refusals[job_id] = refusal
                    continue
                assert job.throughput is not None, (
                    "remaining work and throughput are declared in ``needs``"
                )
                self._enter(job.spec, job.throughput, view.cluster)
            if job.grant is None:
                self._granted.pop(job_id, None)
            else:
                self._granted[job_id] = job.grant.num_slots
            self._jobs[job_id].needs(job.remaining_samples(view.time_s))
        return refusals

    def refresh(self, view: ClusterView) -> None:
        """Update the remaining work of every job that has slots."""
        jobs, own, now_s = view.jobs, self._jobs, view.time_s
        for job_id in self._granted:
            own[job_id].needs(jobs[job_id].remaining_samples(now_s))

    def changes(
        self, plan: SharePlan, planned: Iterable[ShareJob], others: list[ShareJob], zero_first: bool
    ) -> tuple[dict[str, Grant | Suspend | Refuse], int | None]:
        """Grow the shares of a plan into the free slots.

        Args:
            plan: the shares.
            planned: the plan's jobs, in its order.
            others: jobs without a share, by arrival.
            zero_first: see ``grow``.

        Returns:
            The grants that change, and the first time slot in which a planned job has more than it
            gets now.
        """
        grown = grow(plan, [job.demand for job in others], zero_first)
        wanted = {
            job.job_id: count
            for job, count in zip(planned, grown.planned, strict=True)
            if count > 0
        }
        wanted |= {others[index].job_id: count for index, count in sorted(grown.others.items())}
        changes: dict[str, Grant | Suspend | Refuse] = {
            job_id: Suspend()
            for job_id in sorted(
                self._granted.keys() - wanted, key=lambda job_id: self._jobs[job_id].by_deadline
            )
        }
        for job_id, count in wanted.items():
            if self._granted.get(job_id) != count:
                changes[job_id] = Grant(count)
        self._granted = wanted
        return changes, plan.short_of(np.array(grown.planned, np.int64))

    def _enter(self, spec: JobSpec, curve: Throughput, cluster: Cluster) -> None:
        least = spec.min_slots if spec.elastic else spec.requested_slots
        key = (curve, least, spec.max_slots, spec.elastic, cluster.num_slots)
        levels = self._levels.get(key)
        if levels is None:
            size = cluster.num_slots, self._powers_of_two, self._slot_s
            levels = self._levels[key] = levels_of(spec, curve, *size)
        deadline_s = math.inf if spec.deadline_s is None else spec.deadline_s
        end = 0
        if spec.deadline_s is not None:
            end = math.floor((deadline_s - self._margin_s) / self._slot_s * (1.0 + ROUNDING))
        by_deadline = (deadline_s, *spec.order)
        job = ShareJob(spec, by_deadline, Demand(levels, spec.work_samples, end, spec.order))
        self._jobs[spec.job_id] = job
        self.arrived.append(job)

    def _forget(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        self._granted.pop(job_id, None)
        self.promised.discard(job)
        self.others.discard(job)
        if job in self.arrived:
            self.arrived.remove(job)

    def drop(self, job: ShareJob) -> None:
        """Forget a job that is refused."""
        self._forget(job.job_id)


class TimeSlots:
    """Decision times of a scheduler that plans in time slots: the slots' boundaries.

    An event within a time slot waits for the next boundary. So every plan consists of whole time
    slots, and the rest of a plan is still a plan later.
    """

    def __init__(self, slot_s: float) -> None:
        self._slot_s = slot_s
        self._due_s = math.inf

    def begins(self, view: ClusterView) -> int | None:
        """Return the time slot that begins now or has just begun; None between boundaries.

        After None, ``wake_s`` is the time of the next boundary.
        """
        now_s = view.time_s
        slot = math.floor(now_s / self._slot_s * (1.0 + ROUNDING))
        began_s = slot * self._slot_s
        falls_on_it = now_s - began_s <= ROUNDING * now_s
        if falls_on_it or now_s >= self._due_s or arrived_by(view, began_s):
            self._due_s = math.inf
            return slot
        self._due_s = min(self._due_s, (slot + 1) * self._slot_s)
        return None

    def wake(self, slot: int | None) -> float | None:
        """Ask for a decision at the beginning of ``slot``, and return that time.

        None means that no decision is needed before something happens.
        """
        self._due_s = math.inf if slot is None else slot * self._slot_s
        return self.wake_s

    @property
    def wake_s(self) -> float | None:
        """Time of the next decision; None if no decision is due."""
        return self._due_s if self._due_s < math.inf else None
