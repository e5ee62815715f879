"""Index of the free slots by host; the replay updates it, and placements only read it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence

from harness.cluster import Cluster


class Occupancy:
    """Free slots of a cluster; implements ``FreeSlots``.

    Where jobs may share devices (``Cluster.shared_speed``), a placement sees only the first slot of
    every device that no job uses.

    Every operation costs in proportion to the slots it moves and the size of their hosts.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._host_of = cluster.host_of
        self._device_of = cluster.device_of
        self._devices = cluster.devices
        self._is_shared = any(len(slots) > 1 for slots in cluster.devices)
        """True if a device has several slots."""
        self._free: list[list[int]] = [
            sorted({cluster.devices[cluster.device_of[slot]][0] for slot in host.slots})
            for host in cluster.hosts
        ]
        widest = max(len(host.slots) for host in cluster.hosts)
        self._hosts_with: list[list[int]] = [[] for _ in range(widest + 1)]
        for host, slots in enumerate(self._free):
            self._hosts_with[len(slots)].append(host)
        self._num_free = len(cluster.devices)
        self._offered: list[int | None] = [slots[0] for slots in cluster.devices]
        """For each device, the slot that is among the free ones; None if it offers none."""
        self._down: set[int] = set()
        self._taken: set[int] = set()

    @property
    def num_free(self) -> int:
        """Number of free slots whose device no job uses."""
        return self._num_free

    @property
    def down(self) -> frozenset[int]:
        """Slots that are down."""
        return frozenset(self._down)

    def on_host(self, host: int) -> Sequence[int]:
        """Return the free slots of one host, ascending."""
        return self._free[host]

    def hosts_with(self, num_free: int) -> Sequence[int]:
        """Return the hosts with exactly ``num_free`` free slots, ascending."""
        return self._hosts_with[num_free] if num_free < len(self._hosts_with) else ()

    def is_free(self, slots: Collection[int], *, beside_others: bool = False) -> bool:
        """Return whether these slots are all up and free, and no job holds another slot of their
        devices.

        ``beside_others``: ignore jobs on other slots of their devices.
        """
        if any(slot in self._taken or slot in self._down for slot in slots):
            return False
        return beside_others or all(
            other not in self._taken
            for slot in slots
            for other in self._devices[self._device_of[slot]]
        )

    def take(self, slots: Iterable[int]) -> None:
        """Mark slots as held.

        Raises:
            ValueError: a slot is held already, or down.
        """
        taken, down = self._taken, self._down
        for slot in slots:
            if slot in taken or slot in down:
                state = "held" if slot in taken else "down"
                raise ValueError(f"slot {slot} is {state} already; two grants would share it")
            taken.add(slot)
            if self._is_shared:
                self._offer(slot)
            else:
                self._offered[self._device_of[slot]] = None
                self._remove(slot)

    def release(self, slots: Iterable[int]) -> None:
        """Give slots back; a slot that is down does not become free.

        Raises:
            ValueError: a slot was not held.
        """
        taken, down = self._taken, self._down
        for slot in slots:
            if slot not in taken:
                raise ValueError(f"slot {slot} is given back but was not held")
            taken.remove(slot)
            if self._is_shared:
                self._offer(slot)
            elif slot not in down:
                self._offered[self._device_of[slot]] = slot
                self._add(slot)

    def mark_down(self, slot: int) -> None:
        """Take a slot out of service."""
        if slot not in self._down:
            self._down.add(slot)
            self._offer(slot)

    def mark_up(self, slot: int) -> None:
        """Put a slot back into service."""
        if slot in self._down:
            self._down.remove(slot)
            self._offer(slot)

    def _offer(self, changed: int) -> None:
        """Update the slot that the device of this slot offers: its first slot that is up, if no job
        uses the device."""
        device = self._device_of[changed]
        slots, before = self._devices[device], self._offered[device]
        now = None
        if not any(slot in self._taken for slot in slots):
            now = next((slot for slot in slots if slot not in self._down), None)
        if now == before:
            return
        self._offered[device] = now
        if before is not None:
            self._remove(before)
        if now is not None:
            self._add(now)

    def _remove(self, slot: int) -> None:
        host = self._host_of[slot]
        free = self._free[host]
        group = self._hosts_with[len(free)]
        del group[bisect_left(group, host)]
        del free[bisect_left(free, slot)]
        insort(self._hosts_with[len(free)], host)
        self._num_free -= 1

    def _add(self, slot: int) -> None:
        host = self._host_of[slot]
        free = self._free[host]
        group = self._hosts_with[len(free)]
        del group[bisect_left(group, host)]
        insort(free, slot)
        insort(self._hosts_with[len(free)], host)
        self._num_free += 1
