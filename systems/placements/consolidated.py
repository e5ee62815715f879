"""Best-fit consolidation: the fewest hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from harness.cluster import Cluster
from harness.contracts.placement import FreeSlots
from systems.placements.free_part import of_type


class Consolidated:
    """Placement of a job on the fewest hosts that its held slots allow.

    A new job takes the host whose free slots are enough and closest to the need. If no host has
    enough, it takes whole hosts with the most free slots first, and the rest by best fit. A growing
    job keeps its held slots and fills its own hosts first, then continues like a new job. A
    shrinking job gives back slots of the hosts on which it has the fewest. Ties go to the lowest
    host. Other jobs are never moved.

    Source: best fit of ElasticFlow (the subtree whose idle slots are enough and closest to the
    need), here with one level, the host.
    """

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._widest = 0

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """Choose slots for a grant; see ``Placement.place``."""
        need = num_slots - len(held)
        if need <= 0:
            return _shrunk(num_slots, cluster, held)
        free = of_type(cluster, free, device_type)
        if need > free.num_free:
            return None
        if cluster is not self._cluster:
            self._cluster = cluster
            self._widest = max(len(host.slots) for host in cluster.hosts)
        chosen = list(held)
        used: set[int] = set()
        if held:
            used = {cluster.host_of[slot] for slot in held}
            need -= _fill_own(chosen, need, free, used)
        while need > 0:
            host = self._best_fit(need, free, used)
            used.add(host)
            slots = free.on_host(host)[:need]
            chosen += slots
            need -= len(slots)
        return tuple(chosen)

    def _best_fit(self, need: int, free: FreeSlots, used: Collection[int]) -> int:
        """Return the unused host with the fewest free slots that suffice, else the host with the
        most."""
        for count in range(need, self._widest + 1):
            for host in free.hosts_with(count):
                if host not in used:
                    return host
        for count in range(min(need - 1, self._widest), 0, -1):
            for host in free.hosts_with(count):
                if host not in used:
                    return host
        raise AssertionError("fewer free slots on the hosts than num_free says")


def _shrunk(num_slots: int, cluster: Cluster, held: tuple[int, ...]) -> tuple[int, ...]:
    """Return the slots to keep: slots on the hosts where the job has most, in their old order."""
    if num_slots == len(held):
        return held
    host_of = cluster.host_of
    on_host = Counter(host_of[slot] for slot in held)
    ranked = sorted(
        range(len(held)),
        key=lambda rank: (-on_host[host_of[held[rank]]], host_of[held[rank]], rank),
    )
    return tuple(held[rank] for rank in sorted(ranked[:num_slots]))


def _fill_own(chosen: list[int], need: int, free: FreeSlots, hosts: set[int]) -> int:
    """Take up to ``need`` slots on the job's own hosts, best fit first; return how many."""
    left = {host: len(free.on_host(host)) for host in sorted(hosts)}
    missing = need
    while missing > 0 and left:
        enough = [host for host, count in left.items() if count >= missing]
        host = min(enough, key=left.__getitem__) if enough else max(left, key=left.__getitem__)
        del left[host]
        slots = free.on_host(host)[:missing]
        chosen += slots
        missing -= len(slots)
    return need - missing
