"""Shockwave: a market over a window of rounds, with prices that anticipate the jobs' progress."""

from __future__ import annotations

import math
from typing import ClassVar

from sortedcontainers import SortedDict

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.news import touched
from systems.schedulers.common.rounds import Rounds
from systems.schedulers.shockwave.window import Share, best_counts, pack


class _FairTime:
    """Mean number of live jobs since a job's arrival, which determines its fair finish time."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._num_jobs = 1
        self._job_s = 0.0

    def note(self, now_s: float, num_jobs: int) -> None:
        """Record that there are ``num_jobs`` jobs from now on."""
        self._job_s += self._num_jobs * (now_s - self._since_s)
        self._since_s, self._num_jobs = now_s, num_jobs

    def contention(self, now_s: float, arrival_s: float) -> float:
        """Return the mean number of jobs since the job arrived."""
        age_s = now_s - arrival_s
        whole = self._job_s + self._num_jobs * (now_s - self._since_s)
        return whole / age_s if age_s > 0.0 else float(self._num_jobs)


class Shockwave:
    """Shockwave: gangs run in rounds of ``round_s`` seconds, by the plan of a window of
    ``num_rounds``.

    The window maximises a weighted sum minus ``makespan_weight`` times the longest run time left.
    The sum is over the logarithms of the shares of work that the jobs will have done. It is Nash
    social welfare over time, the equilibrium of a market in which all have the same budget. A job's
    weight is ``rho ** fairness_power`` if it is behind its fair finish time, else 1. rho is the
    job's completion time with an equal share of the slots from now on, over its completion time
    with an equal share from its arrival on. A new window is planned when jobs have come or gone or
    the old one is over. Slots that a round leaves idle go to the jobs with the longest time left.
    Every job runs on its requested slots, and is suspended between its rounds.

    ``fairness_power``: no unit; 0: a job that is behind weighs as much as all others (authors: 12
    on 32 GPUs). ``makespan_weight``: per second (authors: 0.001). ``round_s``, ``num_rounds``:
    authors: 120 s and 20. ``gap``: share of a window's optimum that may be missed (authors: 0.001).

    Source: Zheng, Pan, Khan, Venkataraman and Akella, "Shockwave: Fair and Efficient Cluster
    Scheduling for Dynamic Adaptation in Machine Learning", NSDI 2023, sections 4 to 6, and the
    authors' code for what these leave open. Left out: the prediction of batch sizes that jobs
    change themselves (here none does, so that run times are known) with its Dirichlet posterior,
    and the hard constraints on finish times, which the authors' code tries first. Differs:
    logarithms are exact, not pieces of lines; a plan counts each job's rounds, with all rounds'
    slots taken together, and is then packed, wide jobs first, so that it may have a round that does
    not fit (it is left out then); the counts come from a price of a slot if its bound shows that
    they are within ``gap``, and otherwise from an integer program; finish times count from the
    arrival, not from the start of the trace.

    A gang wider than the cluster is refused. A job that lost some of its workers continues with the
    others until it is next suspended.

    Checked: ``described``; a window's counts and their bound against every plan of small cases,
    rounds by hand.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset({Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.SUSPEND})
    wants_progress = False

    def __init__(
        self,
        round_s: float = 120.0,
        num_rounds: int = 20,
        fairness_power: float = 5.0,
        makespan_weight: float = 1e-3,
        gap: float = 1e-3,
    ) -> None:
        problems = []
        if num_rounds < 1:
            problems.append(f"num_rounds is {num_rounds}; plan at least 1 round")
        for name, value in (
            ("fairness_power", fairness_power),
            ("makespan_weight", makespan_weight),
        ):
            if not 0 <= value < math.inf:
                problems.append(f"{name} is {value}; give a number from 0 on")
        if not 0 < gap < 1:
            problems.append(f"gap is {gap}; give a share of the optimum above 0, as 0.001")
        if problems:
            raise ValueError("\n".join(problems))
        self._round_s = round_s
        self._rounds = Rounds(round_s, "round_s")
        self._round_at_s = -math.inf
        self._num_rounds = num_rounds
        self._fairness_power = fairness_power
        self._makespan_weight = makespan_weight
        self._gap = gap
        self._jobs: SortedDict[tuple[float, str], _FairTime] = SortedDict()
        self._orders: dict[str, tuple[float, str]] = {}
        self._plan: list[set[str]] = []
        """Jobs of the window's remaining rounds, the next round last."""
        self._is_stale = True

    def decide(self, view: ClusterView) -> Decision:
        """Update the jobs from the news; if a round begins, run its gangs."""
        # A round begins only once, even if several decisions are requested at that time.
        is_round = self._rounds.begins(view) and view.time_s > self._round_at_s
        changes: dict[str, Grant | Suspend | Refuse] = {}
        is_same = True
        for job_id in touched(view):
            was_there = job_id in self._orders
            refusal = self._look_again(view, job_id)
            if refusal is not None:
                changes[job_id] = refusal
            is_same &= (job_id in self._orders) == was_there
        if not is_same:
            # Compare the jobs, not their number: as many may have arrived as have ended.
            for fair in self._jobs.values():
                fair.note(view.time_s, len(self._jobs))
        if not self._jobs:
            return Decision(changes)
        if is_round:
            self._round_at_s = view.time_s
            if self._is_stale or not self._plan:
                self._plan = self._window(view)
                self._is_stale = False
            changes |= self._round(view, self._plan.pop())
        return Decision(changes, self._rounds.wake(view.time_s))

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        job = view.jobs.get(job_id)
        if job is None:
            order = self._orders.pop(job_id, None)
            if order is not None:
                del self._jobs[order]
                self._is_stale = True
            return None
        if job_id in self._orders:
            return None
        refusal = refuse_misfit(job.spec, gang_slots(job.spec), view.cluster)
        if refusal is not None:
            return refusal
        self._orders[job_id] = job.spec.order
        self._jobs[job.spec.order] = _FairTime(view.time_s)
        self._is_stale = True
        return None

    def _window(self, view: ClusterView) -> list[set[str]]:
        """Plan all rounds of a window; the first one is last in the list."""
        job_ids = [job_id for _, job_id in self._jobs]
        shares = [self._share(view, job_id) for job_id in job_ids]
        num_slots, num_rounds = view.num_usable, self._num_rounds
        counts = best_counts(
            shares, num_slots, num_rounds, self._round_s, self._makespan_weight, self._gap
        )
        rounds = pack(shares, counts, num_slots, num_rounds)
        return [{job_ids[job] for job in jobs} for jobs in reversed(rounds)]

    def _share(self, view: ClusterView, job_id: str) -> Share:
        job, now_s = view.jobs[job_id], view.time_s
        rate = _gang_rate(job)
        work_s, left_s = job.spec.work_samples / rate, _left_s(job, now_s)
        equal = max(1.0, len(self._jobs) / view.cluster.num_slots)
        fair = self._jobs[self._orders[job_id]].contention(now_s, job.spec.arrival_s)
        fair_s = work_s * max(1.0, fair / view.cluster.num_slots)
        rho = (now_s - job.spec.arrival_s + left_s * equal) / fair_s
        return Share(
            width=gang_slots(job.spec),
            done=max(0.0, 1.0 - left_s / work_s),
            per_round=self._round_s / work_s,
            left_s=left_s,
            weight=max(1.0, rho) ** self._fairness_power,
        )

    def _round(self, view: ClusterView, planned: set[str]) -> dict[str, Grant | Suspend]:
        """Run the gangs of a round, and other jobs that fit next to them."""
        free = view.num_usable
        running: dict[str, int] = {}
        jobs = [view.jobs[job_id] for _, job_id in self._jobs]
        waiting = sorted(
            (job for job in jobs if job.job_id not in planned),
            key=lambda job: (-_left_s(job, view.time_s), job.spec.order),
        )
        for job in [*(job for job in jobs if job.job_id in planned), *waiting]:
            width = gang_slots(job.spec) if job.grant is None else job.grant.num_slots
            if width <= free:
                running[job.job_id] = width
                free -= width
        changes: dict[str, Grant | Suspend] = {
            job.job_id: Suspend()
            for job in jobs
            if job.grant is not None and job.job_id not in running
        }
        for job in jobs:
            if job.grant is None and job.job_id in running:
                changes[job.job_id] = Grant(running[job.job_id])
        return changes


def _gang_rate(job: JobView) -> float:
    assert job.throughput is not None, "remaining work is declared in ``needs``"
    return job.throughput.samples_per_s(gang_slots(job.spec))


def _left_s(job: JobView, now_s: float) -> float:
    """Return the seconds that the job still runs on its requested slots.

    The result is above 0, since the job has not ended.
    """
    return max(job.remaining_samples(now_s) / _gang_rate(job), 1e-3)
