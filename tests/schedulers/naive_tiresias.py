"""Tiresias as its text says it: every decision looks at every job and builds the whole plan."""

from __future__ import annotations

import math

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.view import ClusterView

TOLERANCE_S = 1e-6


class NaiveTiresias:
    needs = frozenset()
    requires = frozenset()
    wants_progress = False

    def __init__(self, limits, promote_after):
        self.limits, self.promote_after = tuple(limits), promote_after
        self.level, self.since, self.base = {}, {}, {}

    def decide(self, view: ClusterView) -> Decision:
        now = view.time_s
        self.level = {i: self.level.get(i, 0) for i in view.jobs}
        for job in view.jobs.values():
            self.since.setdefault(job.job_id, job.spec.arrival_s)
            self.base.setdefault(job.job_id, 0.0)
            if job.grant is not None or not job.slots:
                while self.left_s(job, now) <= TOLERANCE_S:
                    self.level[job.job_id] += 1
                    self.since[job.job_id] = now
        for job in view.jobs.values():
            if self.promotion_s(job) <= now + TOLERANCE_S:
                self.level[job.job_id] = 0
                self.since[job.job_id] = now
                self.base[job.job_id] = job.attained_slot_s
        free, plan = view.num_usable, []
        for job in sorted(view.jobs.values(), key=self.rank):
            if job.spec.requested_slots <= free:
                free -= job.spec.requested_slots
                plan.append(job.job_id)
        changes = {
            job.job_id: Suspend()
            for job in view.jobs.values()
            if job.grant is not None and job.job_id not in plan
        }
        for job_id in plan:
            if view.jobs[job_id].grant is None:
                changes[job_id] = Grant(view.jobs[job_id].spec.requested_slots)
        moments = [now + self.left_s(view.jobs[i], now) for i in plan]
        moments += [self.promotion_s(job) for job in view.jobs.values() if job.job_id not in plan]
        return Decision(changes, min(moments, default=math.inf))

    def rank(self, job):
        return self.level[job.job_id], self.since[job.job_id], job.spec.arrival_s, job.job_id

    def left_s(self, job, now):
        if self.level[job.job_id] >= len(self.limits):
            return math.inf
        service = job.attained_service_slot_s(now) - self.base[job.job_id]
        return (self.limits[self.level[job.job_id]] - service) / job.spec.requested_slots

    def promotion_s(self, job):
        """When a job that waits without slots is promoted; infinite for all others."""
        if self.promote_after is None or self.level[job.job_id] == 0:
            return math.inf
        if job.grant is not None or job.slots:
            return math.inf
        return job.waiting_since_s + self.promote_after * job.executed_s
