"""Record of the slots promised to each job, for schedulers that name exact slots."""

from __future__ import annotations

from collections.abc import Iterable

from harness.cluster import Cluster
from harness.contracts.decision import Grant
from harness.contracts.view import ClusterView, JobView
from harness.replay.occupancy import Occupancy
from systems.placements.consolidated import Consolidated
from systems.schedulers.common.news import touched


class SlotClaims:
    """Promised slots, no slot to two jobs; new slots are chosen as ``Consolidated`` does.

    A promise may still be open: another job may hold the slots and be giving them up. ``follow``
    updates the promises from the view.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._placement = Consolidated()
        self._free = Occupancy(cluster)
        self._of: dict[str, tuple[int, ...]] = {}
        self._owner: dict[int, str] = {}
        self._down: frozenset[int] = frozenset()
        self.changed_hosts: set[int] = set()
        """Hosts on which a claim has changed; the caller clears the set."""

    @property
    def num_free(self) -> int:
        """Number of slots that are up and promised to no job."""
        return self._free.num_free

    def of(self, job_id: str) -> tuple[int, ...]:
        """Return the slots promised to the job, in rank order."""
        return self._of.get(job_id, ())

    def free_on(self, host: int) -> list[int]:
        """Return the free slots of one host, ascending."""
        return list(self._free.on_host(host))

    def owners_on(self, host: int) -> dict[str, list[int]]:
        """Return the jobs with claims on a host, and their slots there, ascending."""
        found: dict[str, list[int]] = {}
        for slot in self._cluster.hosts[host].slots:
            owner = self._owner.get(slot)
            if owner is not None:
                found.setdefault(owner, []).append(slot)
        return found

    def follow(self, view: ClusterView) -> list[str]:
        """Update the claims from the view; return the jobs that have lost a part of their promise.

        A slot that went down is promised to no job. After a failed change, two grants can name one
        slot; the job that really holds the slot keeps it.
        """
        broken: dict[str, None] = {}
        for slot in sorted(self._down - view.down_slots):
            self._free.mark_up(slot)
            self.changed_hosts.add(self._cluster.host_of[slot])
        for slot in sorted(view.down_slots - self._down):
            self._free.mark_down(slot)
            self._lose(slot, broken)
            self.changed_hosts.add(self._cluster.host_of[slot])
        self._down = view.down_slots
        seen = {job_id: view.jobs.get(job_id) for job_id in touched(view)}
        for job_id in seen:
            self.set(job_id, _promised(seen[job_id], self._of.get(job_id, ())))
        for job_id, job in seen.items():
            self._renew(job_id, job, broken)
        return [job_id for job_id in broken if job_id in view.jobs]

    def set(self, job_id: str, slots: Iterable[int]) -> None:
        """Set the slots that the job claims; other slots that it had become free."""
        before, after = self._of.pop(job_id, ()), tuple(slots)
        gone = [slot for slot in before if slot not in after]
        come = [slot for slot in after if slot not in before]
        self._free.release(gone)
        self._free.take(come)
        for slot in gone:
            del self._owner[slot]
        for slot in come:
            self._owner[slot] = job_id
        if after:
            self._of[job_id] = after
        if gone or come:
            self.changed_hosts.update(self._cluster.host_of[slot] for slot in (*before, *after))

    def resize(self, job_id: str, num_slots: int) -> None:
        """Change the job's claim to ``num_slots`` slots; missing slots must be free."""
        held = self.of(job_id)
        slots = self._placement.place(num_slots, self._cluster, self._free, held)
        assert slots is not None, "fewer slots are free than the caller counted"
        self.set(job_id, slots)

    def _lose(self, slot: int, broken: dict[str, None]) -> None:
        owner = self._owner.get(slot)
        if owner is not None:
            self.set(owner, [one for one in self._of[owner] if one != slot])
            broken[owner] = None

    def _renew(self, job_id: str, job: JobView | None, broken: dict[str, None]) -> None:
        """Claim the slots of the job's grant, except those that another job really holds."""
        if job is None or job.grant is None:
            return
        promised = _named(job)
        for slot in promised:
            if slot in job.slots and self._owner.get(slot, job_id) != job_id:
                self._lose(slot, broken)
        mine = [
            slot
            for slot in promised
            if slot not in self._down and self._owner.get(slot, job_id) == job_id
        ]
        self.set(job_id, mine)
        if len(mine) < len(promised):
            broken[job_id] = None


def _named(job: JobView) -> tuple[int, ...]:
    """Return the slots of the job's grant; if the grant names none, those that the job holds."""
    assert job.grant is not None
    return job.grant.slots if job.grant.slots is not None else job.slots


def _promised(job: JobView | None, before: tuple[int, ...]) -> tuple[int, ...]:
    """Return the remaining slots of an earlier claim, before new slots are claimed."""
    if job is None or job.grant is None:
        return ()
    named = _named(job)
    return tuple(slot for slot in before if slot in named)


def grant_of(job: JobView, claim: tuple[int, ...]) -> Grant | None:
    """Return the grant that matches a claim; None if the present grant matches already."""
    if job.grant is not None and set(_named(job)) == set(claim):
        return None
    return Grant(len(claim), slots=claim)
