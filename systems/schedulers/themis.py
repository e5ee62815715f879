"""Themis: leases are auctioned among the jobs with the least fair treatment."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import ClassVar

from harness.contracts.decision import Decision
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.common.best_subset import best_subset
from systems.schedulers.common.gang import gang_slots
from systems.schedulers.common.gang_book import GangBook
from systems.schedulers.common.news import touched
from systems.schedulers.common.rounds import Rounds


class Themis:
    """Themis, by finish-time fairness: rho = time to finish shared over time to finish on an equal
    share.

    A lease of a job's requested slots ends with the round in which it was given. A round begins
    every ``lease_s`` seconds while jobs wait. Then all slots are offered to the jobs with the
    largest rho: a share ``1 - fairness`` of all jobs that could use them, at least one. Among these
    bidders, the set wins that fits and has the greatest product of values. A job's value is 1 /
    rho: with this lease for a winner, one lease later for the others. Remaining slots go to the
    other jobs that fit, the largest rho first. Between rounds no job is suspended, and free slots
    are offered in the same way to the jobs that wait. With ``fairness`` 1, jobs are ordered by rho
    alone.

    rho of a job at time t, if it ran from now on:

    - shared: t - arrival + remaining work / T(requested slots)
    - alone: stated work / T(requested slots) * max(1, requested slots * N / slots of the cluster),
      N being the mean number of live jobs since its arrival; as in the metric
      ``finish_time_fairness_max``.

    Source: Mahajan et al., "Themis", NSDI 2020, as described in one sentence in Gu et al.,
    "ElasticFlow", ASPLOS 2023, section 6.1 (which followed another system's version of it); the
    rest is general knowledge of its mechanism. Values attributed to the paper: leases of 20
    minutes, fairness 0.8. Chosen here: leases that end together, so that a wide job can be served;
    linear slow-down on a share; gangs, which get all of their slots or none. The hidden payments of
    the auction are left out: they make untruthful bids useless, and here all bids are true. Every
    job is its own application.

    Checked: ``described``; the auction's winners against brute force.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset({Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.SUSPEND})
    wants_progress = False

    def __init__(self, lease_s: float = 1200.0, fairness: float = 0.8) -> None:
        if not 0.0 <= fairness <= 1.0:
            raise ValueError(f"fairness is {fairness}; give a share from 0 to 1")
        self._rounds = Rounds(lease_s, "lease_s")
        self._lease_s = lease_s
        self._fairness = fairness
        self._book = GangBook()
        self._contention = Contention()

    def decide(self, view: ClusterView) -> Decision:
        """Offer all slots, or between rounds the free slots."""
        book = self._book
        changes = book.follow(view)
        self._contention.follow(view, book.specs)
        is_round = self._rounds.begins(view)
        if book.num_waiting and is_round:
            changes |= book.grant_only(self._winners(view, book.specs, view.num_usable))
        elif book.num_waiting and view.num_free > 0:
            changes |= book.grant_too(self._winners(view, book.waiting, view.num_free))
        return Decision(changes, self._rounds.wake(view.time_s) if book.num_waiting else None)

    def _winners(self, view: ClusterView, job_ids: Iterable[str], num_slots: int) -> list[str]:
        """Return the jobs that get the offered slots; winners of the auction come first."""
        book = self._book
        able = [job_id for job_id in job_ids if book.num_slots(job_id) <= num_slots]
        if not able:
            return []
        ends_s = {job_id: self._shared_s(view, job_id) for job_id in able}
        rho = {job_id: ends_s[job_id] / self._alone_s(view, job_id) for job_id in ends_s}
        order = sorted(rho, key=lambda job_id: (-rho[job_id], book.specs[job_id].order))
        # 1e-9 because 1 - 0.8 is a little above 0.2 in floats, which must not give 3 of 10 jobs
        num_bidders = max(1, math.ceil((1.0 - self._fairness) * len(order) - 1e-9))
        bidders = order[:num_bidders]
        gains = [math.log1p(self._lease_s / max(ends_s[job_id], 1e-9)) for job_id in bidders]
        sizes = [book.num_slots(job_id) for job_id in bidders]
        won = [bidders[index] for index in best_subset(gains, sizes, num_slots)]
        left = num_slots - sum(book.num_slots(job_id) for job_id in won)
        winners = set(won)
        return won + book.fitting((one for one in order if one not in winners), left)

    def _shared_s(self, view: ClusterView, job_id: str) -> float:
        """Return the seconds from arrival to end if the job runs from now on."""
        job = view.jobs[job_id]
        assert job.throughput is not None, "declared in needs"
        left_s = job.remaining_samples(view.time_s) / _rate(view, job_id)
        return view.time_s - job.spec.arrival_s + left_s

    def _alone_s(self, view: ClusterView, job_id: str) -> float:
        """Return the seconds from start to end on an equal share of the cluster."""
        spec = view.jobs[job_id].spec
        wanted = gang_slots(spec) * self._contention.since(spec.arrival_s, job_id, view.time_s)
        return spec.work_samples / _rate(view, job_id) * max(1.0, wanted / view.cluster.num_slots)


class Contention:
    """Mean number of live jobs since each job arrived."""

    def __init__(self) -> None:
        self._job_s = 0.0
        """Integral of the number of live jobs over time."""
        self._at_s = 0.0
        self._num_live = 0
        self._before: dict[str, float] = {}
        """Value of the integral when each live job arrived."""

    def follow(self, view: ClusterView, live: Collection[str]) -> None:
        """Update the integral from the news; ``live`` are the jobs that count from now on."""
        self._job_s += self._num_live * (view.time_s - self._at_s)
        self._at_s = view.time_s
        self._num_live = len(live)
        for job_id in touched(view):
            if job_id in live:
                self._before.setdefault(job_id, self._job_s)
            else:
                self._before.pop(job_id, None)

    def since(self, arrival_s: float, job_id: str, now_s: float) -> float:
        """Return the mean number of live jobs from the job's arrival to now.

        For a job that has just arrived, the result is the present number.
        """
        if now_s <= arrival_s:
            return self._num_live
        return max(1.0, (self._job_s - self._before[job_id]) / (now_s - arrival_s))


def _rate(view: ClusterView, job_id: str) -> float:
    """Return the samples per second on the requested slots."""
    job = view.jobs[job_id]
    assert job.throughput is not None, "declared in needs"
    return job.throughput.samples_per_s(gang_slots(job.spec))
