"""Chronus: leases by which as many deadlines as possible are kept."""

from __future__ import annotations

import math
from typing import ClassVar

from harness.contracts.scheduler import (
    ClusterView,
    Decision,
    Knowledge,
    Requirement,
)
from systems.schedulers.gang import gang_slots
from systems.schedulers.gang_book import GangBook
from systems.schedulers.lease_plan import LeaseJob, plan_leases
from systems.schedulers.rounds import Rounds

_ROUNDING = 1e-9


class Chronus:
    """Jobs hold their requested slots by leases; a program says who must run in each lease.

    A lease ends with its round of ``lease_s`` seconds. At the start of a round in which not all
    jobs fit, a mixed-integer program (``plan_leases``) chooses the jobs whose deadlines are kept,
    as many as possible, but those that were promised theirs before all others; and who of them
    must run now. Those get their slots; then, as far as they fit, the other jobs with a promise,
    the earliest deadline first, and all the rest, the least remaining time first. Between
    rounds nobody is suspended, and free slots go to waiting jobs in the same order.

    Nobody is refused: a job whose deadline cannot be kept runs like one without a deadline. So
    does one that arrives in the middle of a round, until the next. Soft deadlines count like
    hard ones. A promise that turns out not to fit beside the others is dropped.
    ``margin_s``: deadlines are planned for so much earlier, for what changes cost.

    Source: Gao et al., "Chronus", SoCC 2021, by the one sentence in Gu et al., "ElasticFlow",
    ASPLOS 2023, section 6.1; the rest is common knowledge of its mechanism (leases, a program over
    whole leases, slots outside of leases used as they come). Chosen here: 20 minutes; leases
    that end together; all deadlines of equal worth; of its last lease a job needs only
    a part, so a job shorter than a lease can be promised something. Differs: the placement
    is not part of the program, and no job is run early for being short.

    Checked: ``described``; the program against brute force.

    Raises:
        ValueError: an option means nothing.
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
        """Plan leases, or between rounds hand out what is free."""
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
        """Renew the promises; the jobs that must have the present lease."""
        specs = self._book.specs
        with_deadline = [job_id for job_id, spec in specs.items() if spec.deadline_s is not None]
        num_new = len(with_deadline) - len(self._promised)
        # One old promise outweighs all that could be made instead.
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
        """A job with a deadline, counted in leases from now."""
        deadline_s = self._book.specs[job_id].deadline_s
        assert deadline_s is not None, "asked only about deadlines"
        left_s = _left_s(view, job_id)
        needed = max(1, math.ceil(left_s / self._lease_s - _ROUNDING))
        in_last_s = left_s - (needed - 1) * self._lease_s
        latest = (deadline_s - self._margin_s - view.time_s - in_last_s) / self._lease_s
        usable = math.floor(latest + _ROUNDING) + 1
        return LeaseJob(self._book.num_slots(job_id), needed, usable, reward)

    def _ranked(self, view: ClusterView, job_ids: list[str]) -> list[str]:
        """Promised jobs by deadline, then the others by remaining time."""

        def rank(job_id: str) -> tuple[bool, float, float, str]:
            spec = self._book.specs[job_id]
            if job_id in self._promised:
                assert spec.deadline_s is not None
                return False, spec.deadline_s, *spec.order
            return True, _left_s(view, job_id), *spec.order

        return sorted(job_ids, key=rank)


def _left_s(view: ClusterView, job_id: str) -> float:
    """Seconds to the job's end on its requested slots."""
    job = view.jobs[job_id]
    assert job.throughput is not None, "declared in needs"
    return job.remaining_samples(view.time_s) / job.throughput.samples_per_s(gang_slots(job.spec))
