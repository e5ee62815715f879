"""First in, first out, in gangs."""

from __future__ import annotations

from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse
from harness.contracts.job import JobSpec
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.waiting import Key, WaitingJobs


class Fifo:
    """FIFO: jobs start in order of arrival, each on the slots it requested, and keep them.

    Nothing is suspended or rescaled. A job that lost all its slots queues again by its arrival; a
    job that lost some of them continues with the others to its end. A job that the whole cluster
    cannot hold is refused. The cost of a decision grows with its news, not with the length of the
    queue.

    ``backfill``: jobs behind a job that does not fit may start if they fit. No slots are reserved
    for the job they overtake, so a large job can wait for long.
    ``slots_per_job``: every job gets this many slots, within its own range, whatever it requested;
    a job that is not elastic gets its request. None: all get their request.

    Source: the gang schedulers that every paper compares with; with ``slots_per_job`` 4 the Static
    side of the EDL paper's synthetic workload (section 6.3).

    Checked: ``exact``, on that synthetic workload and on the job of fixed size of Hu et al.,
    section 1, which leaves 92 of 100 nodes idle; ``backfill``, which no paper's example has, on
    cases computed by hand.

    Raises:
        ValueError: ``slots_per_job`` is below 1.
    """

    checked: ClassVar[str] = "exact"
    needs: frozenset[Knowledge] = frozenset()
    requires: frozenset[Requirement] = frozenset()
    wants_progress = False

    def __init__(self, backfill: bool = False, slots_per_job: int | None = None) -> None:
        if slots_per_job is not None and slots_per_job < 1:
            raise ValueError(
                f"slots_per_job is {slots_per_job}; give at least 1, or null for what jobs request"
            )
        self._backfill = backfill
        self._slots_per_job = slots_per_job
        self._waiting = WaitingJobs()

    def decide(self, view: ClusterView) -> Decision:
        """Start as many jobs as the free slots allow."""
        changes = refusals(view, self._look_again)
        free = view.num_free
        while (key := self._waiting.first(free if self._backfill else None)) is not None:
            if key.num_slots > free:
                break
            self._waiting.discard(key.job_id)
            changes[key.job_id] = Grant(key.num_slots)
            free -= key.num_slots
        return Decision(changes)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Add one job to the waiting jobs or remove it, by its state in the view."""
        job = view.jobs.get(job_id)
        if job is None or job.grant is not None:
            self._waiting.discard(job_id)
        elif job_id not in self._waiting:
            num_slots = self._slots_of(job.spec)
            refusal = refuse_misfit(job.spec, num_slots, view.cluster)
            if refusal is not None:
                return refusal
            self._waiting.put(Key(0, 0.0, job.spec.arrival_s, job_id, num_slots))
        return None

    def _slots_of(self, spec: JobSpec) -> int:
        if self._slots_per_job is None or not spec.elastic:
            return gang_slots(spec)
        most = self._slots_per_job if spec.max_slots is None else spec.max_slots
        return max(spec.min_slots, min(self._slots_per_job, most))
