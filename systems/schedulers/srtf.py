"""Shortest remaining time first: an oracle, to show the value of knowing all run times."""

from __future__ import annotations

from typing import ClassVar, Literal

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.gang_plan import GangPlan
from systems.schedulers.common.news import refusals
from systems.schedulers.common.waiting import Key


class Srtf:
    """SRTF: the jobs that would end soonest run, at the slots they requested; preemptive.

    Every event makes a new plan. In order of remaining time, each job gets its requested slots if
    they fit and is skipped otherwise. Running jobs outside the plan are suspended. The remaining
    time is the remaining work over the throughput on the requested slots; ties by arrival, then job
    id.

    ``order``: ``time``, or ``service``, the remaining time multiplied by the requested slots
    (shortest remaining service first).

    The rule assumes exact knowledge of the remaining work, which no system has. With one slot,
    ``time`` gives the least possible mean completion time (Schrage). So figures show it as a bound;
    for jobs of several slots it is only roughly a bound. A job that lost some of its workers
    continues with the others until it is next suspended.

    Source: Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time
    Discipline", Operations Research 16 (1968), for one machine; gangs by request are ours.

    Checked: ``compared``, with a plan that is built from nothing at every event, and on one slot
    with every order of the jobs.

    Raises:
        ValueError: ``order`` is neither.
    """

    checked: ClassVar[str] = "compared"
    oracle: ClassVar[bool] = True
    needs: frozenset[Knowledge] = frozenset({Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.SUSPEND})
    wants_progress = False

    def __init__(self, order: Literal["time", "service"] = "time") -> None:
        if order not in ("time", "service"):
            raise ValueError(f"order is {order!r}; give time or service")
        self._by_service = order == "service"
        self._plan = GangPlan()
        self._planned: dict[str, Key] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Order the running jobs again, then repair the plan."""
        changes = refusals(view, self._look_again)
        for job_id, key in self._planned.items():
            rank = self._rank(view.jobs[job_id], view.time_s)
            self._planned[job_id] = key._replace(rank=rank)
        self._plan.planned[:] = sorted(self._planned.values())
        started, evicted = self._plan.repair(view.num_free)
        for key in evicted:
            del self._planned[key.job_id]
            self._plan.waiting.put(self._key(view.jobs[key.job_id], view.time_s))
            changes[key.job_id] = Suspend()
        for key in started:
            self._planned[key.job_id] = key
            changes[key.job_id] = Grant(key.num_slots)
        return Decision(changes)

    def _rank(self, job: JobView, now_s: float) -> float:
        """Return the remaining time, seconds, or the remaining service, slot-seconds."""
        assert job.throughput is not None, "remaining work is declared in ``needs``"
        num_slots = gang_slots(job.spec)
        left_s = job.remaining_samples(now_s) / job.throughput.samples_per_s(num_slots)
        return left_s * num_slots if self._by_service else left_s

    def _key(self, job: JobView, now_s: float) -> Key:
        rank, spec = self._rank(job, now_s), job.spec
        return Key(0, rank, spec.arrival_s, job.job_id, gang_slots(spec))

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Update one job from the view."""
        job = view.jobs.get(job_id)
        known = job_id in self._planned or job_id in self._plan.waiting
        self._planned.pop(job_id, None)
        self._plan.waiting.discard(job_id)
        if job is None:
            return None
        if not known:
            refusal = refuse_misfit(job.spec, gang_slots(job.spec), view.cluster)
            if refusal is not None:
                return refusal
        key = self._key(job, view.time_s)
        if job.grant is None:
            self._plan.waiting.put(key)
        else:
            self._planned[job_id] = key._replace(num_slots=job.grant.num_slots)
        return None
