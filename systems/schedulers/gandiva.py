"""Gandiva: jobs take turns on the slots, and move and grow where that helps them."""

from __future__ import annotations

import math
from typing import ClassVar

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
from systems.schedulers.gang_plan import GangPlan
from systems.schedulers.idle_slots import grown, moved
from systems.schedulers.news import touched
from systems.schedulers.rounds import Rounds
from systems.schedulers.waiting import Key

_IN_TURN, _WAITING, _DONE = 0, 1, 2
"""Levels of the order: in the middle of a turn; waiting; just had a turn."""


class Gandiva:
    """Round robin over all jobs at the slots they requested, fair by turns of ``quantum_s``.

    While jobs wait, a round begins every ``quantum_s`` seconds: first those that have waited
    longest get their requested slots, then those that run, the last started first, as far as
    they fit; who does not fit is suspended. Between rounds nobody is suspended, and free slots
    go to the waiting jobs that fit, the longest waiting first.

    ``migrate``: whenever something happens and nothing is under way, a job that lies on more hosts
    than it must moves together, if slots are free for that.
    ``grow_after_s``: once slots were idle and nobody waited for so long, the slots of each host
    are shared among the elastic jobs that lie on it alone; as soon as a job waits, all go back
    to their request. None: never, as ElasticFlow's authors have it ("not elastic").

    Source: Xiao et al., "Gandiva", OSDI 2018, by name and by the one sentence in Gu et al.,
    "ElasticFlow", ASPLOS 2023, section 6.1; the rest is common knowledge of its mechanisms, and
    chosen here: time slices of one minute; one queue for the cluster, not one for each
    host, so hosts are not kept apart by the size of their jobs (the placement consolidates);
    the idle slots of a host go to the smallest job on it, one at a time. Two jobs never share
    a device (packing), as a slot here holds one job: fewer jobs run at once than under a
    Gandiva that finds two that do not disturb each other. Nor is the growth of a job undone
    when it was measured not to help.

    A job that lost some of its workers goes on with the others until it is next suspended.

    Checked: ``described``; the turns against a plan that is built anew at every event.

    Raises:
        ValueError: an option means nothing.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset()
    wants_progress = False

    def __init__(
        self, quantum_s: float = 60.0, migrate: bool = True, grow_after_s: float | None = None
    ) -> None:
        if grow_after_s is not None and not 0.0 < grow_after_s < math.inf:
            raise ValueError(
                f"grow_after_s is {grow_after_s}; give seconds above 0, or null for never"
            )
        self._rounds = Rounds(quantum_s, "quantum_s")
        self._migrate = migrate
        self._grow_after_s = grow_after_s
        requires = {Requirement.SUSPEND}
        if migrate:
            requires.add(Requirement.MIGRATE)
        if grow_after_s is not None:
            requires.add(Requirement.RESCALE)
        self.requires = frozenset(requires)
        self._plan = GangPlan()
        self._planned: dict[str, Key] = {}
        self._idle_since_s: float | None = None

    def decide(self, view: ClusterView) -> Decision:
        """Give turns; where nobody waits for one, use what is idle."""
        now_s = view.time_s
        changes: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in touched(view):
            refusal = self._look_again(view, job_id)
            if refusal is not None:
                changes[job_id] = refusal
        is_round = self._rounds.begins(view)
        if len(self._plan.waiting):
            changes |= self._take_turns(view, is_round)
        if not changes and not view.in_flight:
            changes |= self._use_idle(view)
        if len(self._plan.waiting):
            self._idle_since_s = None
            return Decision(changes, self._rounds.wake(now_s))
        return Decision(changes, self._when_to_grow(view, changes))

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Bring one job in line with the view."""
        job = view.jobs.get(job_id)
        before = self._planned.pop(job_id, None)
        known = before is not None or job_id in self._plan.waiting
        self._plan.waiting.discard(job_id)
        if job is None:
            return None
        if not known:
            refusal = refuse_misfit(job.spec, gang_slots(job.spec), view.cluster)
            if refusal is not None:
                return refusal
        if job.grant is None:
            self._plan.waiting.put(_waiting(job))
        else:
            since_s = view.time_s if before is None else -before.rank
            self._planned[job_id] = _running(job, since_s, job.grant.num_slots)
        return None

    def _take_turns(self, view: ClusterView, is_round: bool) -> dict[str, Grant | Suspend | Refuse]:
        """Slots for jobs that wait: what is free or was borrowed; in a round also the others'."""
        changes: dict[str, Grant | Suspend | Refuse] = {}
        free = view.num_free
        for job_id, key in self._planned.items():
            num_slots = gang_slots(view.jobs[job_id].spec)
            if key.num_slots > num_slots:
                free += key.num_slots - num_slots
                changes[job_id] = Grant(num_slots)
                key = key._replace(num_slots=num_slots)
            self._planned[job_id] = key._replace(level=_DONE if is_round else _IN_TURN)
        self._plan.planned[:] = sorted(self._planned.values())
        # Where slots went down there is less than nothing; that too waits for a round.
        started, evicted = self._plan.repair(free if is_round else max(free, 0))
        for key in evicted:
            del self._planned[key.job_id]
            self._plan.waiting.put(_waiting(view.jobs[key.job_id], view.time_s))
            changes[key.job_id] = Suspend()
        for key in started:
            job = view.jobs[key.job_id]
            self._planned[key.job_id] = _running(job, view.time_s, key.num_slots)
            changes[key.job_id] = Grant(key.num_slots)
        return changes

    def _use_idle(self, view: ClusterView) -> dict[str, Grant]:
        """Move jobs together or let them grow, where all are on their slots."""
        jobs = [view.jobs[job_id] for job_id in self._planned]
        if any(job.grant is None or len(job.slots) != job.grant.num_slots for job in jobs):
            return {}
        jobs.sort(key=lambda job: job.spec.order)
        changes = moved(view, jobs) if self._migrate else {}
        if changes or self._grow_after_s is None or len(self._plan.waiting):
            return changes
        since_s = self._idle_since_s
        if since_s is None or view.time_s < since_s + self._grow_after_s:
            return {}
        changes = grown(view, jobs)
        for job_id, grant in changes.items():
            self._planned[job_id] = self._planned[job_id]._replace(num_slots=grant.num_slots)
        return changes

    def _when_to_grow(
        self, view: ClusterView, changes: dict[str, Grant | Suspend | Refuse]
    ) -> float | None:
        """Note since when slots are idle; when they have been so for long enough."""
        if self._grow_after_s is None:
            return None
        taken = sum(key.num_slots for key in self._planned.values())
        if taken >= view.num_usable:
            self._idle_since_s = None
            return None
        if self._idle_since_s is None or changes:
            self._idle_since_s = view.time_s
        due_s = self._idle_since_s + self._grow_after_s
        return due_s if due_s > view.time_s else None


def _waiting(job: JobView, since_s: float | None = None) -> Key:
    """A job that waits for a turn: the longest first."""
    since_s = job.waiting_since_s if since_s is None else since_s
    return Key(_WAITING, since_s, job.spec.arrival_s, job.job_id, gang_slots(job.spec))


def _running(job: JobView, since_s: float, num_slots: int) -> Key:
    """A job that has a turn: the last started first."""
    return Key(_IN_TURN, -since_s, job.spec.arrival_s, job.job_id, num_slots)
