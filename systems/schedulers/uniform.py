"""Uniform sharing of every host among its jobs (the EDL paper's Elastic)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import least_slots, refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.waiting import Key, WaitingJobs


class Uniform:
    """Uniform sharing: a job is on one host, whose slots are shared uniformly among its jobs.

    A new job goes to the host with the fewest jobs that can take it (ties: the first host). The
    other jobs of that host are scaled in for it, never below their ``min_slots``. If no host can
    take the job, it queues, first in, first out, and no job overtakes it. When a job leaves, the
    others on its host share its slots. A job grows until one more slot would lower its throughput;
    further slots go to the other jobs of the host. Slots that do not divide evenly go to the
    highest relative gain ``T(w + 1) / T(w) - 1``. Jobs that are not elastic keep what they
    requested. The scheduler names exact slots; a job keeps the slots it has as far as its share
    allows.

    ``use_throughput``: use the curves; otherwise jobs grow while there are slots, and the remainder
    goes to the earliest arrivals.

    Source: Wu et al., EDL, section 6.3, the Elastic side of the synthetic workload, with the
    choices N = 0 and a least size of 1 for its compaction. A job that no host can hold is refused.
    A job that lost some of its workers takes part in the sharing as before. If too many slots are
    down for the least of all jobs, jobs below their least keep what they hold.

    Checked: ``described``; the allocations of that workload, and other cases, by hand.
    """

    checked: ClassVar[str] = "described"
    requires: frozenset[Requirement] = frozenset({Requirement.RESCALE})
    wants_progress = False

    def __init__(self, use_throughput: bool = True) -> None:
        self._use_throughput = use_throughput
        self.needs = frozenset({Knowledge.THROUGHPUT} if use_throughput else set())
        self._waiting = WaitingJobs()
        self._residents: list[set[str]] = []
        self._host_of_job: dict[str, int] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Assign hosts to waiting jobs, then share the slots of every host that changed."""
        if not self._residents:
            self._residents = [set() for _ in view.cluster.hosts]
        dirty = {
            view.cluster.host_of[event.slot]
            for event in view.news
            if event.slot is not None and event.kind in (EventKind.SLOT_DOWN, EventKind.SLOT_UP)
        }
        changes = refusals(view, partial(self._look_again, dirty=dirty))
        changes |= self._withdraw(view, dirty)
        while (key := self._waiting.first()) is not None:
            host = self._host_for(view, key.num_slots)
            if host is None:
                break
            self._waiting.discard(key.job_id)
            self._settle(key.job_id, host)
            dirty.add(host)
        for host in sorted(dirty):
            changes |= self._share(view, host)
        return Decision(changes)

    def _look_again(self, view: ClusterView, job_id: str, dirty: set[int]) -> Refuse | None:
        job = view.jobs.get(job_id)
        if job is None:
            self._waiting.discard(job_id)
            self._leave(job_id, dirty)
            return None
        if job.grant is not None:
            # A failed change leaves an older grant, which may not fit the host's shares.
            assert job.grant.slots is not None or job.slots
            dirty.add(view.cluster.host_of[_promised(job)[0]])
            return None
        self._leave(job_id, dirty)
        least = least_slots(job.spec)
        refusal = refuse_misfit(job.spec, least, view.cluster)
        widest = max(len(host.slots) for host in view.cluster.hosts)
        if refusal is None and least > widest:
            refusal = Refuse(
                f"the job needs {least} slots at once, but uniform sharing keeps a job on one"
                f" host, and the largest has {widest}; lower min_slots or choose another scheduler"
            )
        if refusal is None and job_id not in self._waiting:
            self._waiting.put(Key(0, 0.0, job.spec.arrival_s, job_id, least))
        return refusal

    def _settle(self, job_id: str, host: int) -> None:
        self._residents[host].add(job_id)
        self._host_of_job[job_id] = host

    def _leave(self, job_id: str, dirty: set[int]) -> None:
        host = self._host_of_job.pop(job_id, None)
        if host is not None:
            self._residents[host].discard(job_id)
            dirty.add(host)

    def _host_for(self, view: ClusterView, num_slots: int) -> int | None:
        """Return the host with the fewest jobs among those that can still give ``num_slots``."""
        best: int | None = None
        for host, residents in enumerate(self._residents):
            if best is not None and len(residents) >= len(self._residents[best]):
                continue
            taken = sum(least_slots(view.jobs[job_id].spec) for job_id in residents)
            if taken + num_slots <= len(_usable(view, host)):
                best = host
        return best

    def _withdraw(self, view: ClusterView, dirty: set[int]) -> dict[str, Suspend]:
        """Take back promises that became impossible when a slot went down.

        Jobs that hold slots fit with what they hold. So only jobs that still wait for their slots
        queue again, the last arrivals first.
        """
        withdrawn: dict[str, Suspend] = {}
        for host in sorted(dirty):
            jobs = [view.jobs[job_id] for job_id in self._residents[host]]
            excess = sum(least_slots(job.spec) for job in jobs) - len(_usable(view, host))
            promised = sorted((job.spec.order for job in jobs if not job.slots), reverse=True)
            for arrival_s, job_id in promised:
                if excess <= 0:
                    break
                least = least_slots(view.jobs[job_id].spec)
                excess -= least
                self._leave(job_id, dirty)
                self._waiting.put(Key(0, 0.0, arrival_s, job_id, least))
                withdrawn[job_id] = Suspend()
        return withdrawn

    def _share(self, view: ClusterView, host: int) -> dict[str, Grant]:
        """Return the grants of a host's jobs that change; jobs that give slots come first."""
        jobs = sorted(
            (view.jobs[job_id] for job_id in self._residents[host]), key=lambda job: job.spec.order
        )
        usable = _usable(view, host)
        shares = self._shares(jobs, len(usable))
        promised = _claims(jobs, usable)
        kept = {job_id: slots[: shares[job_id]] for job_id, slots in promised.items()}
        given_up = {slot for job_id, slots in promised.items() for slot in slots[shares[job_id] :]}
        held = {slot for slots in kept.values() for slot in slots}
        # Slots that are free now come first, because they are available at once.
        pool = sorted((slot in given_up, slot) for slot in usable if slot not in held)
        pool.reverse()
        gives: dict[str, Grant] = {}
        takes: dict[str, Grant] = {}
        for job in jobs:
            slots = list(kept[job.job_id])
            while len(slots) < shares[job.job_id]:
                slots.append(pool.pop()[1])
            if tuple(slots) != _promised(job):
                side = takes if len(slots) > len(kept[job.job_id]) else gives
                side[job.job_id] = Grant(len(slots), slots=tuple(slots))
        return gives | takes

    def _shares(self, jobs: list[JobView], num_slots: int) -> dict[str, int]:
        """Return uniform shares of ``num_slots``.

        Every job gets the least it can run on. If these do not fit, jobs that hold less than their
        least keep what they hold, the last arrivals first. Then one slot at a time goes to the job
        with the fewest slots among those that may grow; ties go to the job that gains most.
        """
        shares = {job.job_id: least_slots(job.spec) for job in jobs}
        growing = {job.job_id: job for job in jobs if job.spec.elastic}
        for job in reversed(jobs):
            below = shares[job.job_id] - len(job.slots)
            if sum(shares.values()) > num_slots and job.slots and below > 0:
                shares[job.job_id] -= below
                growing.pop(job.job_id, None)
        free = num_slots - sum(shares.values())
        while free > 0 and growing:
            # min() keeps the first of equals, and jobs are in order of arrival
            job_id = min(growing, key=lambda i: (shares[i], -self._gain(growing[i], shares[i])))
            job = growing[job_id]
            if shares[job_id] == job.spec.max_slots or self._gain(job, shares[job_id]) < 0.0:
                del growing[job_id]
                continue
            shares[job_id] += 1
            free -= 1
        return shares

    def _gain(self, job: JobView, num_slots: int) -> float:
        """Return the relative gain in throughput by one more slot; 0 where curves are not known."""
        if not self._use_throughput:
            return 0.0
        curve = job.throughput
        assert curve is not None, "throughput is declared in ``needs``"
        return curve.samples_per_s(num_slots + 1) / curve.samples_per_s(num_slots) - 1.0


def _promised(job: JobView) -> tuple[int, ...]:
    """Return the slots of the job's present grant; if the grant names none, the slots it holds."""
    if job.grant is None:
        return ()
    return job.grant.slots if job.grant.slots is not None else job.slots


def _usable(view: ClusterView, host: int) -> list[int]:
    return [slot for slot in view.cluster.hosts[host].slots if slot not in view.down_slots]


def _claims(jobs: list[JobView], usable: list[int]) -> dict[str, list[int]]:
    """Return the promised slots that each job may keep, in rank order.

    After a failed change, two grants can name one slot; the job that really holds the slot keeps
    it.
    """
    claimed = {slot: job.job_id for job in jobs for slot in _promised(job) if slot in job.slots}
    for job in jobs:
        for slot in _promised(job):
            claimed.setdefault(slot, job.job_id)
    return {
        job.job_id: [s for s in _promised(job) if s in usable and claimed[s] == job.job_id]
        for job in jobs
    }
