"""Mixed-integer linear program for the deadlines that can be kept together by whole leases.

The module computes with numbers only: time is counted in leases from now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from systems.schedulers.common.highs import EXACT, INF, Model


@dataclass(frozen=True, slots=True)
class LeaseJob:
    """Job with a deadline."""

    slots: int
    """Slots of the job. In each lease it has all of them or none."""
    needed: int
    """Leases until its work is done, at least 1; the job may need only a part of the last lease."""
    usable: int
    """Leases from now on in which the job can still end in time."""
    reward: float
    """Reward for keeping its deadline, at least 1."""


@dataclass(frozen=True, slots=True)
class LeasePlan:
    """Result of ``plan_leases``; jobs by their index, ascending."""

    kept: list[int]
    """Jobs whose deadlines are kept."""
    now: list[int]
    """Jobs among ``kept`` that have the present lease."""


def plan_leases(jobs: Sequence[LeaseJob], num_slots: int) -> LeasePlan:
    """Return a plan with the greatest reward.

    First, every lease goes to the jobs with the earliest deadlines that fit. If that keeps all
    deadlines that can be kept, it is the plan. Otherwise the plan is the solution of a program;
    among equal solutions, one that uses most slots now.

    Leases between two deadlines are equivalent. So the program only counts how many of them a job
    has: one column for each job and stretch of leases, not for each lease. If all jobs demand the
    same number of slots, such counts always have a timetable (each job begins where the previous
    job ended, wrapping round). Otherwise the program may promise too much, and a later plan
    withdraws promises. The present lease is a separate stretch, so the part of the plan for now
    always fits.
    """
    possible = [
        place
        for place, job in enumerate(jobs)
        if job.needed <= job.usable and job.slots <= num_slots
    ]
    now_by_urgency = _by_urgency(jobs, possible, num_slots)
    if now_by_urgency is not None:
        return LeasePlan(possible, now_by_urgency)
    return _solved(jobs, possible, num_slots)


def _by_urgency(jobs: Sequence[LeaseJob], places: list[int], num_slots: int) -> list[int] | None:
    """Return the jobs that run now, most urgent first; None if a job would be late."""
    left = {place: jobs[place].needed for place in sorted(places, key=lambda i: jobs[i].usable)}
    now: list[int] | None = None
    lease = 0
    while left:
        free, chosen = num_slots, []
        for place, needed in left.items():
            if jobs[place].slots <= free:
                free -= jobs[place].slots
                chosen.append(place)
            elif lease + needed >= jobs[place].usable:
                return None
        for place in chosen:
            left[place] -= 1
            if not left[place]:
                del left[place]
        now = chosen if now is None else now
        lease += 1
    return sorted(now or [])


def _solved(jobs: Sequence[LeaseJob], possible: list[int], num_slots: int) -> LeasePlan:
    """Return the plan that a mixed-integer linear program finds."""
    ends = sorted({1} | {jobs[place].usable for place in possible})
    stretches = list(pairwise([0, *ends]))
    model = Model()
    is_kept: dict[int, int] = {}
    now: dict[int, int] = {}
    used: list[list[tuple[int, float]]] = [[] for _ in stretches]
    for place in possible:
        job = jobs[place]
        is_kept[place] = model.binary(job.reward)
        row = [(is_kept[place], -float(job.needed))]
        for terms, (start, end) in zip(used, stretches, strict=True):
            if end <= job.usable:
                # At most half the least reward over all slots, so this only breaks ties.
                cost = 0.5 * job.slots / num_slots if start == 0 else 0.0
                leases = model.column(0.0, end - start, cost=cost, integer=True)
                now.setdefault(place, leases)
                row.append((leases, 1.0))
                terms.append((leases, float(job.slots)))
        model.row(0.0, row, 0.0)
    for terms, (start, end) in zip(used, stretches, strict=True):
        model.row(-INF, terms, float(num_slots * (end - start)))
    values = model.maximise(EXACT).values
    return LeasePlan(
        [place for place, column in is_kept.items() if values[column] > 0.5],
        [place for place, column in now.items() if values[column] > 0.5],
    )
