"""Which deadlines can be kept together by whole leases, as a mixed-integer linear program.

Numbers only: time is counted in leases from now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from systems.schedulers.hu.highs import EXACT, INF, Model


@dataclass(frozen=True, slots=True)
class LeaseJob:
    """A job with a deadline."""

    slots: int
    """It has all of them in a lease, or none."""
    needed: int
    """Leases until its work is done, at least 1; of the last one it may need only a part."""
    usable: int
    """Leases from now on in which it can still end in time."""
    reward: float
    """Worth of keeping its deadline, at least 1."""


@dataclass(frozen=True, slots=True)
class LeasePlan:
    """Places of jobs, ascending."""

    kept: list[int]
    """Jobs whose deadlines are kept."""
    now: list[int]
    """Those of them that have the present lease."""


def plan_leases(jobs: Sequence[LeaseJob], num_slots: int) -> LeasePlan:
    """A plan with the greatest reward.

    Where giving every lease to the jobs that must end first, each if it fits, keeps all
    deadlines that can be kept at all, that is the plan. Otherwise it is the solution of a
    program, among equal ones one that uses most slots now.

    In it, leases between two deadlines are alike, so it counts how many of them a job has instead
    of choosing which: one column for each job and stretch of leases, not for each lease. If all
    jobs demand equally many slots, such counts can always be laid out (each job from where the one
    before ended, wrapping round); otherwise the program may promise too much, and a later plan
    takes that back. The present lease is a stretch of its own, so what it says about now always
    fits.
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
    """Who runs now, the most urgent first; None if that makes somebody late."""
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
    """The plan by a mixed-integer linear program."""
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
                # Less than half a reward for all slots: it only breaks ties.
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
