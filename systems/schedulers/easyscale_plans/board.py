"""State of the slots during a decision: promises to jobs, and free slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.cluster import Cluster
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.easyscale_plans.model import Counts

Slots = tuple[int, ...]


class Types:
    """Device types of a cluster, numbered in the order of their names."""

    def __init__(self, cluster: Cluster) -> None:
        self.names = cluster.device_types
        number = {name: index for index, name in enumerate(self.names)}
        self.of_slot = tuple(number[slot.device_type] for slot in cluster.slots)

    def count(self, slots: Iterable[int]) -> Counts:
        """Return how many of these slots are of each type."""
        counts = [0] * len(self.names)
        for slot in slots:
            counts[self.of_slot[slot]] += 1
        return tuple(counts)


def promised(job: JobView) -> Slots:
    """Return the slots of a job's present grant; if the grant names none, the slots it holds."""
    if job.grant is None:
        return ()
    return job.grant.slots if job.grant.slots is not None else job.slots


class Board:
    """Promises of slots, which the decision changes; built from a view, which stays unchanged.

    A slot is free when it is up, and no job holds it or is promised it. Impossible promises are
    taken back: the slot is down, or two jobs count on it after a failed change. In the second case
    the job that really holds the slot keeps it.
    """

    def __init__(self, view: ClusterView, types: Types, job_ids: Iterable[str]) -> None:
        self.types = types
        self._host_of = view.cluster.host_of
        jobs = [view.jobs[job_id] for job_id in job_ids]
        self.before = {job.job_id: promised(job) for job in jobs}
        owner = {s: job.job_id for job in jobs for s in self.before[job.job_id] if s in job.slots}
        for job in jobs:
            for slot in self.before[job.job_id]:
                owner.setdefault(slot, job.job_id)
        self.slots: dict[str, Slots] = {
            job_id: tuple(s for s in mine if owner[s] == job_id and s not in view.down_slots)
            for job_id, mine in self.before.items()
        }
        taken = owner.keys() | {slot for job in jobs for slot in job.slots} | view.down_slots
        self._free = set(range(view.cluster.num_slots)) - taken

    @property
    def free(self) -> Counts:
        """Free slots of each type."""
        return self.types.count(self._free)

    @property
    def has_free(self) -> bool:
        """Return whether any slot is free."""
        return bool(self._free)

    def count(self, job_id: str) -> Counts:
        """Return the slots of each type that a job is promised."""
        return self.types.count(self.slots.get(job_id, ()))

    def add(self, job_id: str, added: Counts, lent: Sequence[int] = ()) -> None:
        """Promise a job more slots.

        Free slots on its own hosts come first, then free slots on the hosts with the fewest free.
        Slots in ``lent``, which other jobs had to give up, come last.
        """
        chosen = list(self.slots.get(job_id, ()))
        for index, count in enumerate(added):
            for _ in range(count):
                slot = self._next(index, chosen)
                if slot is None:
                    slot = next(
                        s for s in lent if self.types.of_slot[s] == index and s not in chosen
                    )
                self._free.discard(slot)
                chosen.append(slot)
        self.slots[job_id] = tuple(chosen)

    def drop(self, job_id: str, nums: Counts) -> None:
        """Reduce a job's promise to at most ``nums`` slots of each type: its first ones."""
        left, kept = list(nums), []
        for slot in self.slots[job_id]:
            if left[self.types.of_slot[slot]] > 0:
                left[self.types.of_slot[slot]] -= 1
                kept.append(slot)
        self.slots[job_id] = tuple(kept)

    def keep(self, job_id: str, slots: Slots) -> None:
        """Promise a job only these of its slots; the others become free only once it has left
        them."""
        self.slots[job_id] = slots

    def _next(self, index: int, chosen: Sequence[int]) -> int | None:
        """Return the free slot of a type to take next, or None."""
        open_ = [slot for slot in self._free if self.types.of_slot[slot] == index]
        own = {self._host_of[slot] for slot in chosen}
        left: dict[int, int] = {}
        for slot in open_:
            left[self._host_of[slot]] = left.get(self._host_of[slot], 0) + 1

        def preference(slot: int) -> tuple[bool, int, int]:
            host = self._host_of[slot]
            return host not in own, left[host], slot

        return min(open_, key=preference, default=None)
