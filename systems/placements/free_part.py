"""Part of the free slots: slots of one device type, or slots that are not promised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from harness.cluster import Cluster
from harness.contracts.placement import FreeSlots


class PartOf:
    """Free slots (``FreeSlots``) restricted to a part of the slots."""

    def __init__(self, cluster: Cluster, free: FreeSlots, is_in: Callable[[int], bool]) -> None:
        self._by_host = [
            [slot for slot in free.on_host(host) if is_in(slot)]
            for host in range(len(cluster.hosts))
        ]

    @property
    def num_free(self) -> int:
        """Number of free slots of the part."""
        return sum(len(slots) for slots in self._by_host)

    def on_host(self, host: int) -> Sequence[int]:
        """Return the free slots of the part on one host, ascending."""
        return self._by_host[host]

    def hosts_with(self, num_free: int) -> Sequence[int]:
        """Return the hosts with exactly ``num_free`` free slots of the part, ascending."""
        return [host for host, slots in enumerate(self._by_host) if len(slots) == num_free]


def of_type(cluster: Cluster, free: FreeSlots, device_type: str | None) -> FreeSlots:
    """Return the free slots that a grant of ``device_type`` may use; None: all."""
    if device_type is None or cluster.device_types == (device_type,):
        return free
    slots = cluster.slots
    return PartOf(cluster, free, lambda slot: slots[slot].device_type == device_type)


def without(cluster: Cluster, free: FreeSlots, promised: Collection[int]) -> FreeSlots:
    """Return the free slots that are not among ``promised``."""
    return PartOf(cluster, free, lambda slot: slot not in promised)
