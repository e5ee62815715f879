"""The free slots of one device type, where a cluster has several."""

from __future__ import annotations

from collections.abc import Sequence

from harness.cluster import Cluster
from harness.contracts.scheduler import FreeSlots


class OfType:
    """``FreeSlots`` narrowed to one device type."""

    def __init__(self, cluster: Cluster, free: FreeSlots, device_type: str) -> None:
        slots = cluster.slots
        self._by_host = [
            [slot for slot in free.on_host(host) if slots[slot].device_type == device_type]
            for host in range(len(cluster.hosts))
        ]

    @property
    def num_free(self) -> int:
        """Free slots of the type."""
        return sum(len(slots) for slots in self._by_host)

    def on_host(self, host: int) -> Sequence[int]:
        """Free slots of the type on one host, ascending."""
        return self._by_host[host]

    def hosts_with(self, num_free: int) -> Sequence[int]:
        """Hosts with exactly ``num_free`` free slots of the type, ascending."""
        return [host for host, slots in enumerate(self._by_host) if len(slots) == num_free]


def of_type(cluster: Cluster, free: FreeSlots, device_type: str | None) -> FreeSlots:
    """The free slots that a grant of ``device_type`` may use; None: all."""
    if device_type is None or cluster.device_types == (device_type,):
        return free
    return OfType(cluster, free, device_type)
