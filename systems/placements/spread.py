"""Spreading placement: as many hosts as possible, evenly."""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heapreplace

from harness.cluster import Cluster
from harness.contracts.placement import FreeSlots
from systems.placements.free_part import of_type


class Spread:
    """Placement of a job on as many hosts as possible, with as even a number of slots on each.

    Slots are taken one at a time on the host where the job has the fewest. Of equal hosts, the one
    with the most free slots comes first, then the lowest. A growing job keeps its held slots. A
    shrinking job gives back, one at a time, the last slot of the host where it has most. New slots
    are in ascending order, so that neighbouring ranks share a host.

    This placement is the opposite of consolidation, to show the value of locality.
    """

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """Choose slots for a grant; see ``Placement.place``."""
        host_of = cluster.host_of
        need = num_slots - len(held)
        if need <= 0:
            return _shrunk(num_slots, cluster, held)
        free = of_type(cluster, free, device_type)
        if need > free.num_free:
            return None
        own = Counter(host_of[slot] for slot in held)
        queue = [
            (own[host], -len(slots), host)
            for host in range(len(cluster.hosts))
            if (slots := free.on_host(host))
        ]
        heapify(queue)
        taken: list[int] = []
        used: Counter[int] = Counter()
        while len(taken) < need:
            num_own, num_left, host = queue[0]
            taken.append(free.on_host(host)[used[host]])
            used[host] += 1
            if num_left == -1:
                heappop(queue)
            else:
                heapreplace(queue, (num_own + 1, num_left + 1, host))
        return held + tuple(sorted(taken))


def _shrunk(num_slots: int, cluster: Cluster, held: tuple[int, ...]) -> tuple[int, ...]:
    """Return the slots to keep, in their old order."""
    kept = list(held)
    on_host = Counter(cluster.host_of[slot] for slot in held)
    while len(kept) > num_slots:
        most = max(on_host.values())
        rank = max(r for r, slot in enumerate(kept) if on_host[cluster.host_of[slot]] == most)
        on_host[cluster.host_of[kept.pop(rank)]] -= 1
    return tuple(kept)
