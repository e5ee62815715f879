"""Slots of a cluster as leaves of a binary tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.cluster import Cluster
from harness.contracts.placement import FreeSlots

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class SlotTree:
    """Binary tree of slots: pairs, fours and so on of one host in device order, then of hosts.

    The numbers of slots of a host and of hosts are rounded up to powers of two, so some leaves may
    have no slot. A block is a subtree: its number of leaves is a power of two, and it begins at a
    multiple of that number.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        width = power(max(len(host.slots) for host in cluster.hosts))
        self.slot_at: Ints = np.full(power(len(cluster.hosts)) * width, -1)
        """Slot of every leaf; -1: the leaf has no slot."""
        self.leaf_of: Ints = np.zeros(cluster.num_slots, np.int64)
        for number, host in enumerate(cluster.hosts):
            for place, slot in enumerate(host.slots):
                self.leaf_of[slot] = number * width + place
                self.slot_at[number * width + place] = slot

    def flags(self, slots: Iterable[int]) -> Flags:
        """Return for every leaf whether its slot is one of these."""
        flags = np.zeros(len(self.slot_at), np.bool_)
        flags[self.leaf_of[list(slots)]] = True
        return flags

    def free(self, free: FreeSlots) -> Flags:
        """Return for every leaf whether its slot is free."""
        hosts = range(len(self.cluster.hosts))
        return self.flags(slot for host in hosts for slot in free.on_host(host))

    def slots(self, leaves: Ints) -> list[int]:
        """Return the slots of some leaves, ascending."""
        return sorted(self.slot_at[leaves].tolist())


def idle_around(is_free: Flags, block: int, nodes: Ints) -> list[Ints]:
    """Return the number of free leaves in each block, and in each larger block around it.

    The first block in order of these numbers breaks up the least free space.
    """
    counts = []
    width = block
    while width <= len(is_free):
        idle = is_free.reshape(-1, width).sum(axis=1)
        counts.append(idle[nodes * block // width])
        width *= 2
    return counts


def power(number: int) -> int:
    """Return the least power of two that is not below a number."""
    return 1 << (number - 1).bit_length()
