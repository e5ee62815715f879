"""Record of live jobs for schedulers that grant a job its requested slots or none."""

from __future__ import annotations

from collections.abc import Iterable

from harness.contracts.decision import Grant, Refuse, Suspend
from harness.contracts.job import JobSpec
from harness.contracts.view import ClusterView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.news import touched


class GangBook:
    """Live jobs at their requested slots.

    A job that lost some of its workers still counts as granted until its next suspension.
    """

    def __init__(self) -> None:
        self.specs: dict[str, JobSpec] = {}
        """Live jobs, in order of arrival."""
        self.granted: dict[str, int] = {}
        """Slots of each job that has a grant."""

    def follow(self, view: ClusterView) -> dict[str, Grant | Suspend | Refuse]:
        """Update the jobs from the news; return refusals of jobs that can never fit into the
        cluster."""
        refusals: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in touched(view):
            job = view.jobs.get(job_id)
            self.granted.pop(job_id, None)
            if job is None:
                self.specs.pop(job_id, None)
                continue
            if job_id not in self.specs:
                refusal = refuse_misfit(job.spec, gang_slots(job.spec), view.cluster)
                if refusal is not None:
                    refusals[job_id] = refusal
                    continue
                self.specs[job_id] = job.spec
            if job.grant is not None:
                self.granted[job_id] = job.grant.num_slots
        return refusals

    @property
    def num_waiting(self) -> int:
        """Number of jobs without a grant."""
        return len(self.specs) - len(self.granted)

    @property
    def waiting(self) -> list[str]:
        """Jobs without a grant, in order of arrival."""
        return [job_id for job_id in self.specs if job_id not in self.granted]

    def num_slots(self, job_id: str) -> int:
        """Return the slots that a job has, or would be given."""
        granted = self.granted.get(job_id)
        return gang_slots(self.specs[job_id]) if granted is None else granted

    def fitting(self, job_ids: Iterable[str], num_slots: int) -> list[str]:
        """Return the jobs that get slots: in this order, each job that fits into the remaining
        slots."""
        chosen = []
        for job_id in job_ids:
            if self.num_slots(job_id) <= num_slots:
                num_slots -= self.num_slots(job_id)
                chosen.append(job_id)
        return chosen

    def grant_only(self, job_ids: Iterable[str]) -> dict[str, Grant | Suspend | Refuse]:
        """Return the changes after which exactly these jobs run.

        Suspensions come first, by arrival; then starts, in the order of ``job_ids``.
        """
        wanted = dict.fromkeys(job_ids)
        changes: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in self.specs:
            if job_id in self.granted and job_id not in wanted:
                del self.granted[job_id]
                changes[job_id] = Suspend()
        return changes | self.grant_too(wanted)

    def grant_too(self, job_ids: Iterable[str]) -> dict[str, Grant | Suspend | Refuse]:
        """Return the changes that start these jobs as well, in this order."""
        changes: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in job_ids:
            if job_id not in self.granted:
                self.granted[job_id] = gang_slots(self.specs[job_id])
                changes[job_id] = Grant(self.granted[job_id])
        return changes
