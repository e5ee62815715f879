"""Which slots are free, by host: the replay's own index, shown to placements read-only."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from harness.cluster import Cluster


class Occupancy:
    """Free slots of a cluster; implements ``FreeSlots``.

    Every operation costs in proportion to the slots it moves and the size of their hosts.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._host_of = cluster.host_of
        self._free: list[list[int]] = [sorted(host.slots) for host in cluster.hosts]
        widest = max(len(host.slots) for host in cluster.hosts)
        self._hosts_with: list[list[int]] = [[] for _ in range(widest + 1)]
        for host, slots in enumerate(self._free):
            self._hosts_with[len(slots)].append(host)
        self._num_free = cluster.num_slots
        self._down: set[int] = set()
        self._taken: set[int] = set()

    @property
    def num_free(self) -> int:
        """Free slots in all."""
        return self._num_free

    @property
    def down(self) -> frozenset[int]:
        """Slots that are down."""
        return frozenset(self._down)

    def on_host(self, host: int) -> Sequence[int]:
        """Free slots of one host, ascending."""
        return self._free[host]

    def hosts_with(self, num_free: int) -> Sequence[int]:
        """Hosts with exactly ``num_free`` free slots, ascending."""
        return self._hosts_with[num_free] if num_free < len(self._hosts_with) else ()

    def is_free(self, slots: Iterable[int]) -> bool:
        """Whether all of these slots are up and free."""
        return not any(slot in self._taken or slot in self._down for slot in slots)

    def take(self, slots: Iterable[int]) -> None:
        """Mark slots as held.

        Raises:
            ValueError: a slot is held already, or down.
        """
        for slot in slots:
            if slot in self._taken or slot in self._down:
                state = "held" if slot in self._taken else "down"
                raise ValueError(f"slot {slot} is {state} already; two grants would share it")
            self._taken.add(slot)
            self._remove(slot)

    def release(self, slots: Iterable[int]) -> None:
        """Give slots back; one that is down stays out of the free ones.

        Raises:
            ValueError: a slot was not held.
        """
        for slot in slots:
            if slot not in self._taken:
                raise ValueError(f"slot {slot} is given back but was not held")
            self._taken.remove(slot)
            if slot not in self._down:
                self._add(slot)

    def mark_down(self, slot: int) -> None:
        """Take a slot out of service."""
        if slot not in self._down:
            if slot not in self._taken:
                self._remove(slot)
            self._down.add(slot)

    def mark_up(self, slot: int) -> None:
        """Put a slot back into service."""
        if slot in self._down:
            self._down.remove(slot)
            if slot not in self._taken:
                self._add(slot)

    def _remove(self, slot: int) -> None:
        host = self._host_of[slot]
        free = self._free[host]
        self._regroup(host, len(free), len(free) - 1)
        del free[bisect_left(free, slot)]
        self._num_free -= 1

    def _add(self, slot: int) -> None:
        host = self._host_of[slot]
        free = self._free[host]
        self._regroup(host, len(free), len(free) + 1)
        insort(free, slot)
        self._num_free += 1

    def _regroup(self, host: int, before: int, after: int) -> None:
        group = self._hosts_with[before]
        del group[bisect_left(group, host)]
        insort(self._hosts_with[after], host)
