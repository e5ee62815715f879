"""Uses of slots that no job waits for: move jobs together, or let jobs grow."""

from __future__ import annotations

from collections.abc import Sequence

from harness.contracts.decision import Grant
from harness.contracts.view import ClusterView, JobView


def moved(view: ClusterView, jobs: Sequence[JobView]) -> dict[str, Grant]:
    """Return grants that move jobs to the fewest hosts available, each to free slots.

    A job keeps its slots on hosts where it stays. Hosts with the most slots for the job are taken
    first; ties go to hosts that the job uses already. The last host is a host that suffices for the
    rest: that with most of the job's slots, then that with the fewest to spare.

    Args:
        view: a view without a change in flight.
        jobs: the jobs that hold their slots, in the order in which they may choose.
    """
    free = free_by_host(view)
    found: dict[str, Grant] = {}
    for job in jobs:
        held = _by_host(view, job)
        if len(held) == 1 or not _may_have(job, len(job.slots)):
            # The job lost slots and is below its fewest, so no grant of this size is allowed.
            continue
        best = _fewest_hosts(held, free, len(job.slots))
        if len(best) >= len(held):
            continue
        kept = [slot for slot in job.slots if view.cluster.host_of[slot] in best]
        new: list[int] = []
        for host in best:
            take = min(len(free[host]), len(job.slots) - len(kept) - len(new))
            new += free[host][:take]
            del free[host][:take]
        # The next job must not get the slots given up here: they are free only after the move.
        slots = (*kept, *new)
        found[job.job_id] = Grant(len(slots), slots=slots)
    return found


def grown(view: ClusterView, jobs: Sequence[JobView]) -> dict[str, Grant]:
    """Return grants that share each host's free slots among the elastic jobs on that host alone.

    One slot at a time goes to the job with the fewest slots; ties go to the first in ``jobs``.
    """
    free = free_by_host(view)
    slots_of = {job.job_id: list(job.slots) for job in jobs}
    for host, spare in enumerate(free):
        here = [
            job
            for job in jobs
            if job.spec.elastic
            and _may_have(job, len(job.slots))
            and list(_by_host(view, job)) == [host]
        ]
        while spare:
            able = [job for job in here if _may_grow(job, len(slots_of[job.job_id]))]
            if not able:
                break
            job = min(able, key=lambda job: len(slots_of[job.job_id]))
            slots_of[job.job_id].append(spare.pop(0))
    return {
        job.job_id: Grant(len(slots), slots=tuple(slots))
        for job in jobs
        if len(slots := slots_of[job.job_id]) > len(job.slots)
    }


def _may_have(job: JobView, num_slots: int) -> bool:
    if not job.spec.elastic:
        return num_slots == job.spec.requested_slots
    return num_slots >= job.spec.min_slots


def _may_grow(job: JobView, num_slots: int) -> bool:
    return job.spec.max_slots is None or num_slots < job.spec.max_slots


def free_by_host(view: ClusterView) -> list[list[int]]:
    """Return the slots of every host that are up and held by no job, ascending.

    On a device that jobs may share, only the first slot counts, and only if the device is idle.
    """
    held = {slot for job in view.jobs.values() for slot in job.slots}
    free: list[list[int]] = [[] for _ in view.cluster.hosts]
    for slots in view.cluster.devices:
        up = [slot for slot in slots if slot not in view.down_slots]
        if up and held.isdisjoint(slots):
            free[view.cluster.host_of[up[0]]].append(up[0])
    return free


def taken_from(free: list[list[int]], need: int) -> tuple[int, ...] | None:
    """Remove ``need`` slots from the free slots by host and return them; None: there are fewer.

    The slots are on the fewest hosts.
    """
    if need > sum(map(len, free)):
        return None
    found: list[int] = []
    for host in _fewest_hosts({}, free, need):
        take = min(len(free[host]), need - len(found))
        found += free[host][:take]
        del free[host][:take]
    return tuple(found)


def _by_host(view: ClusterView, job: JobView) -> dict[int, int]:
    """Return how many slots a job holds on each of its hosts."""
    held: dict[int, int] = {}
    for slot in job.slots:
        host = view.cluster.host_of[slot]
        held[host] = held.get(host, 0) + 1
    return held


def _fewest_hosts(held: dict[int, int], free: list[list[int]], need: int) -> list[int]:
    """Return the fewest hosts that together have ``need`` slots for a job."""
    room = {host: len(spare) + held.get(host, 0) for host, spare in enumerate(free)}
    chosen: list[int] = []
    while need > 0:
        enough = [host for host, slots in room.items() if slots >= need]
        if enough:
            host = min(enough, key=lambda host: (-held.get(host, 0), room[host], host))
        else:
            host = max(room, key=lambda host: (room[host], held.get(host, 0), -host))
        need -= room.pop(host)
        chosen.append(host)
    return chosen
