"""Buddy placement: aligned blocks of a binary tree."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.cluster import Cluster
from harness.contracts.scheduler import FreeSlots
from systems.placements.device_type import of_type

_Ints: TypeAlias = npt.NDArray[np.int64]


class Buddy:
    """Places a job in the smallest subtree that has room for it.

    Slots are the leaves of a binary tree: pairs, fours and so on of one host in device order,
    then pairs, fours and so on of hosts. A job goes to the smallest subtree with enough free
    slots; of equal ones to that with the fewest free, then to that whose parent has the
    fewest, and so on, then to the first. Growing, it takes the free slots of the smallest
    subtree around those it holds that has enough. Shrinking, it keeps the part that lies in
    the smallest subtree.

    As long as all jobs have powers of two and none ever changes, a job always finds an aligned
    block while blocks of its size are free. After others have shrunk and ended it may not: a
    placement moves no other job, where the paper would migrate some. It is spread over the
    smallest subtree that has room then.

    Source: Gu et al., "ElasticFlow", ASPLOS 2023, section 4.3 (figure 5). Differs: does not
    migrate; sockets are taken to be halves of a host.
    """

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._width = 1
        self._leaf_of: _Ints = np.zeros(0, np.int64)
        self._slot_at: _Ints = np.zeros(0, np.int64)

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """See ``Placement.place``."""
        if cluster is not self._cluster:
            self._lay_out(cluster)
        need = num_slots - len(held)
        if need <= 0:
            return self._shrunk(num_slots, held)
        free = of_type(cluster, free, device_type)
        if need > free.num_free:
            return None
        is_free = np.zeros(len(self._slot_at), np.int64)
        slots = [slot for host in range(len(cluster.hosts)) for slot in free.on_host(host)]
        is_free[self._leaf_of[slots]] = 1
        leaves = self._leaf_of[list(held)]
        first, size = 0, len(is_free)
        taken: list[int] = []
        if held:
            # The smallest subtree around the held slots in which enough are free.
            size = 1
            while True:
                first = int(leaves[0]) // size * size
                inside = bool((leaves // size == first // size).all())
                if inside and is_free[first : first + size].sum() >= need:
                    break
                size *= 2
            # Its half that holds them all gives all it has.
            half = int(leaves[0]) // (size // 2) * (size // 2) if size > 1 else first
            if size > 1 and bool((leaves // (size // 2) == half // (size // 2)).all()):
                near = np.flatnonzero(is_free[half : half + size // 2]) + half
                taken = near.tolist()
                is_free[near] = 0
        missing = need - len(taken)
        if missing:
            taken += _best_fit(is_free, first, size, missing)
        return held + tuple(sorted(self._slot_at[taken].tolist()))

    def _lay_out(self, cluster: Cluster) -> None:
        """Give every slot its leaf. A host that is no power of two wide has leaves to spare."""
        self._cluster = cluster
        self._width = _power(max(len(host.slots) for host in cluster.hosts))
        self._slot_at = np.full(_power(len(cluster.hosts)) * self._width, -1)
        self._leaf_of = np.zeros(cluster.num_slots, np.int64)
        for number, host in enumerate(cluster.hosts):
            for place, slot in enumerate(host.slots):
                self._leaf_of[slot] = number * self._width + place
                self._slot_at[number * self._width + place] = slot

    def _shrunk(self, num_slots: int, held: tuple[int, ...]) -> tuple[int, ...]:
        """The slots to keep, in their old order."""
        if num_slots == len(held):
            return held
        leaves = self._leaf_of[list(held)].tolist()
        size = 1
        while True:
            inside = Counter(leaf // size for leaf in leaves)
            enough = [node for node, count in inside.items() if count >= num_slots]
            if enough:
                node = min(enough, key=lambda node: (inside[node], node))
                kept = {leaf for leaf in sorted(leaves) if leaf // size == node}
                kept = set(sorted(kept)[:num_slots])
                pairs = zip(held, leaves, strict=True)
                return tuple(slot for slot, leaf in pairs if leaf in kept)
            size *= 2


def _best_fit(is_free: _Ints, first: int, size: int, need: int) -> list[int]:
    """Leaves for ``need`` slots in the subtree of ``size`` leaves from ``first`` on."""
    block = _power(need)
    while True:
        idle = is_free[first : first + size].reshape(-1, block).sum(axis=1)
        nodes = np.flatnonzero(idle >= need)
        if len(nodes):
            break
        block *= 2
    keys = []
    width = block
    while width <= size:
        idle = is_free[first : first + size].reshape(-1, width).sum(axis=1)
        keys.append(idle[nodes * block // width])
        width *= 2
    # The last key counts most: the block itself, then what is around it, then its place.
    node = int(nodes[np.lexsort([nodes, *reversed(keys)])[0]])
    start = first + node * block
    found: list[int] = (np.flatnonzero(is_free[start : start + block])[:need] + start).tolist()
    return found


def _power(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << (number - 1).bit_length()
