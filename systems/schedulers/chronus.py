"""Chronus: jobs hold slots by leases, so that as many deadlines as possible are met."""

from __future__ import annotations

import math
from typing import ClassVar

from harness.contracts.decision import Decision
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.common.gang import gang_slots
from systems.schedulers.common.gang_book import GangBook
from systems.schedulers.common.rounds import Rounds
from systems.schedulers.leases.lease_plan import LeaseJob, plan_leases

_ROUNDING = 1e-9


class Chronus:
    """Chronus: jobs hold their requested slots by leases; a program chooses the jobs of each lease.

    A lease ends with its round of ``lease_s`` seconds. If not all jobs fit at the start of a round,
    a mixed-integer program (``plan_leases``) runs. It chooses the jobs whose deadlines are kept, as
    many as possible, and which of them must run now. Jobs that were promised their deadline earlier
    come before all others. The jobs that must run now get their slots. The other jobs with a
    promise follow if they fit, earliest deadline first. All remaining jobs follow by least
    remaining time. Between rounds no job is suspended, and free slots go to waiting jobs in the
    same order.

    No job is refused for its deadline: a job whose deadline cannot be kept runs like a job without
    a deadline. So does a job that arrives in the middle of a round, until the next round. Soft
    deadlines count like hard ones. A promise that no longer fits together with the others is
    dropped. Deadlines are planned ``margin_s`` seconds earlier, to allow for the cost of changes.

    Source: Gao et al., "Chronus", SoCC 2021, by the one sentence in Gu et al., "ElasticFlow",
    ASPLOS 2023, section 6.1; the rest is common knowledge of its mechanism (leases, a program over
    whole leases, slots outside of leases used as they come). Chosen here: 20 minutes; leases that
    end together; all deadlines have equal value; a job needs only a part of its last lease, so a
    job shorter than a lease can have a promise too. Differs: the placement is not part of the
    program, and no job runs early because it is short.

    Checked: ``described``; the program against brute force.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset(
        {Knowledge.DEADLINE, Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT}
    )
    requires: frozenset[Requirement] = frozenset({Requirement.SUSPEND})
    wants_progress = False

    def __init__(self, lease_s: float = 1200.0, margin_s: float = 0.0) -> None:
        if not 0.0 <= margin_s < math.inf:
            raise ValueError(f"margin_s is {margin_s}; give seconds, at least 0")
        self._rounds = Rounds(lease_s, "lease_s")
        self._lease_s = lease_s
        self._margin_s = margin_s
        self._book = GangBook()
        self._promised: set[str] = set()

    def decide(self, view: ClusterView) -> Decision:
        """Plan leases, or between rounds hand out the free slots."""
        book = self._book
        changes = book.follow(view)
        self._promised &= book.specs.keys()
        is_round = self._rounds.begins(view)
        if book.num_waiting and is_round:
            first = self._must_run(view)
            order = dict.fromkeys(first) | dict.fromkeys(self._ranked(view, list(book.specs)))
            changes |= book.grant_only(book.fitting(order, view.num_usable))
        elif book.num_waiting and view.num_free > 0:
            order = dict.fromkeys(self._ranked(view, book.waiting))
            changes |= book.grant_too(book.fitting(order, view.num_free))
        return Decision(changes, self._rounds.wake(view.time_s) if book.num_waiting else None)

    def _must_run(self, view: ClusterView) -> list[str]:
        """Renew the promises; return the jobs that must have the present lease."""
        specs = self._book.specs
        with_deadline = [job_id for job_id, spec in specs.items() if spec.deadline_s is not None]
        num_new = len(with_deadline) - len(self._promised)
        # One old promise weighs more than all new promises together, so no new promise displaces
        # it.
        jobs = [
            self._lease_job(view, job_id, 1.0 + num_new * (job_id in self._promised))
            for job_id in with_deadline
        ]
        plan = plan_leases(jobs, view.num_usable) if view.num_usable else None
        if plan is None:
            return []
        self._promised = {with_deadline[place] for place in plan.kept}
        return [with_deadline[place] for place in plan.now]

    def _lease_job(self, view: ClusterView, job_id: str, reward: float) -> LeaseJob:
        """Return a job with a deadline in the form of the program, counted in leases from now."""
        deadline_s = self._book.specs[job_id].deadline_s
        assert deadline_s is not None, "called only for jobs with a deadline"
        left_s = _left_s(view, job_id)
        needed = max(1, math.ceil(left_s / self._lease_s - _ROUNDING))
        in_last_s = left_s - (needed - 1) * self._lease_s
        latest = (deadline_s - self._margin_s - view.time_s - in_last_s) / self._lease_s
        usable = math.floor(latest + _ROUNDING) + 1
        return LeaseJob(self._book.num_slots(job_id), needed, usable, reward)

    def _ranked(self, view: ClusterView, job_ids: list[str]) -> list[str]:
        """Return promised jobs by deadline, then the others by remaining time."""

        def rank(job_id: str) -> tuple[bool, float, float, str]:
            spec = self._book.specs[job_id]
            if job_id in self._promised:
                assert spec.deadline_s is not None
                return False, spec.deadline_s, *spec.order
            return True, _left_s(view, job_id), *spec.order

        return sorted(job_ids, key=rank)


def _left_s(view: ClusterView, job_id: str) -> float:
    """Return the seconds to the job's end on its requested slots."""
    job = view.jobs[job_id]
    assert job.throughput is not None, "remaining work is declared in ``needs``"
    return job.remaining_samples(view.time_s) / job.throughput.samples_per_s(gang_slots(job.spec))
