"""Buddy placement: aligned blocks of a binary tree."""

from __future__ import annotations

from collections import Counter

import numpy as np

from harness.cluster import Cluster
from harness.contracts.placement import FreeSlots
from systems.placements.free_part import of_type
from systems.placements.slot_tree import Flags, SlotTree, idle_around, power


class Buddy:
    """Placement of a job in the smallest subtree that has room for it.

    Slots are the leaves of a binary tree: pairs, fours and so on of one host in device order, then
    pairs, fours and so on of hosts. A job goes to the smallest subtree with enough free slots. Of
    equal subtrees, it takes the one with the fewest free slots, then the one whose parent has the
    fewest, and so on, then the first. A job that grows takes the free slots of the smallest subtree
    around its held slots that has enough. A job that shrinks keeps the part that lies in the
    smallest subtree.

    As long as all jobs have powers of two and no job ever changes, a job always finds an aligned
    block while blocks of its size are free. After other jobs have shrunk or ended it may not find
    one. This placement moves no other job, while the paper would migrate some (``MigratingBuddy``
    does). The job is then spread over the smallest subtree that has room.

    Source: Gu et al., "ElasticFlow", ASPLOS 2023, section 4.3 (figure 5). Differs: does not
    migrate; sockets are assumed to be halves of a host.
    """

    def __init__(self) -> None:
        self._tree: SlotTree | None = None

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """Choose slots for a grant; see ``Placement.place``."""
        if self._tree is None or self._tree.cluster is not cluster:
            self._tree = SlotTree(cluster)
        tree = self._tree
        need = num_slots - len(held)
        if need <= 0:
            return _shrunk(tree, num_slots, held)
        free = of_type(cluster, free, device_type)
        if need > free.num_free:
            return None
        is_free = tree.free(free)
        leaves = tree.leaf_of[list(held)]
        first, size = 0, len(is_free)
        taken: list[int] = []
        if held:
            # Find the smallest subtree around the held slots in which enough are free.
            size = 1
            while True:
                first = int(leaves[0]) // size * size
                inside = bool((leaves // size == first // size).all())
                if inside and is_free[first : first + size].sum() >= need:
                    break
                size *= 2
            # If one half holds all held slots, all free slots of that half are taken first.
            half = int(leaves[0]) // (size // 2) * (size // 2) if size > 1 else first
            if size > 1 and bool((leaves // (size // 2) == half // (size // 2)).all()):
                near = np.flatnonzero(is_free[half : half + size // 2]) + half
                taken = near.tolist()
                is_free[near] = False
        missing = need - len(taken)
        if missing:
            taken += _best_fit(is_free, first, size, missing)
        return held + tuple(tree.slots(np.array(taken)))


def _shrunk(tree: SlotTree, num_slots: int, held: tuple[int, ...]) -> tuple[int, ...]:
    """Return the slots to keep, in their old order."""
    if num_slots == len(held):
        return held
    leaves = tree.leaf_of[list(held)].tolist()
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


def _best_fit(is_free: Flags, first: int, size: int, need: int) -> list[int]:
    """Return leaves for ``need`` slots in the subtree of ``size`` leaves from ``first`` on."""
    inside = is_free[first : first + size]
    block = power(need)
    while True:
        nodes = np.flatnonzero(inside.reshape(-1, block).sum(axis=1) >= need)
        if len(nodes):
            break
        block *= 2
    # The last key counts most: the block itself, then the blocks around it, then its position.
    keys = idle_around(inside, block, nodes)
    node = int(nodes[np.lexsort([nodes, *reversed(keys)])[0]])
    start = node * block
    found = np.flatnonzero(inside[start : start + block])[:need] + first + start
    return [int(leaf) for leaf in found]
