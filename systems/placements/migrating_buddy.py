"""Buddy placement that moves jobs, so that no slot is stranded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from harness.cluster import Cluster
from harness.contracts.placement import FreeSlots, Occupant
from systems.placements.buddy import Buddy
from systems.placements.free_part import without
from systems.placements.slot_tree import Flags, Ints, SlotTree, idle_around, power


class MigratingBuddy:
    """Buddy placement with aligned blocks for every job; if no block is free, other jobs move.

    The tree is that of ``Buddy``. If there are enough free slots for the jobs' new sizes, and all
    sizes are powers of two, every job finds a block. The largest job chooses first. Each job takes
    the block with the fewest other jobs, which must all be smaller; these find their own blocks in
    turn. A job grows into the block around its own. If other jobs are in that block and a block of
    its new size is free elsewhere, the job goes to the free block, since it is rescaled anyway.
    Ties between blocks break by the fewest slots of other jobs, then by no need to wait, then as
    ``Buddy`` chooses. A job that shrinks keeps the first half of its block.

    So a job moves only if it has a slot in a block that is given away, and no job moves while every
    job finds a free block. As few jobs move as possible, except in rare cases. The choice of a
    block does not look ahead at the jobs that its occupants will have to move. It was compared with
    brute force for one waiting job. The number of moves was least in all 1,482 cases of 8 slots and
    in 58,880 random cases of 16 slots. It was higher, by 1 or 2, in 19 of 88,248 random cases of 32
    slots.

    Jobs of other sizes and jobs whose scheduler names their slots are never moved. If these jobs
    and slots that are down leave no block, a job gets the slots that ``Buddy`` would choose.

    Source: Gu et al., "ElasticFlow", ASPLOS 2023, section 4.3. The paper states that jobs migrate,
    but not which jobs; chosen here: by decreasing size, as few as possible.
    """

    def __init__(self) -> None:
        self._buddy = Buddy()
        self._tree: SlotTree | None = None

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """Choose slots for a grant; see ``Placement.place``. This method moves no other job."""
        return self._buddy.place(num_slots, cluster, free, held, device_type)

    def arrange(
        self,
        cluster: Cluster,
        free: FreeSlots,
        leaving: Collection[int],
        waiting: Sequence[Occupant],
        settled: Sequence[Occupant],
    ) -> Mapping[str, tuple[int, ...]]:
        """Choose slots for grants, and moves of other jobs; see ``Arranging.arrange``."""
        if self._tree is None or self._tree.cluster is not cluster:
            self._tree = SlotTree(cluster)
        staying: set[str] = set()
        while True:
            plan = _Plan(self._tree, free, leaving, waiting, settled, staying)
            at_fault = plan.run()
            if at_fault is None:
                break
            staying.add(at_fault)  # a job that would have to move finds no block
        answer = dict(plan.chosen)
        for job in plan.spread:
            rest = without(cluster, free, plan.promised)
            slots = self._buddy.place(job.num_slots, cluster, rest, job.slots, job.device_type)
            if slots is not None:
                answer[job.job_id] = slots
                plan.promised.update(slots)
        return answer


class _Plan:
    """Blocks for all waiting jobs, and for all jobs that move for them."""

    def __init__(
        self,
        tree: SlotTree,
        free: FreeSlots,
        leaving: Collection[int],
        waiting: Sequence[Occupant],
        settled: Sequence[Occupant],
        staying: Collection[str],
    ) -> None:
        self.chosen: dict[str, tuple[int, ...]] = {}
        self.promised: set[int] = set()
        """Slots of all blocks in ``chosen``."""
        self.spread: list[Occupant] = []
        """Jobs without a block."""
        self._tree = tree
        self._staying = staying
        self._jobs = [*waiting, *settled]
        self._num_waiting = len(waiting)
        self._sizes: Ints = np.array([job.num_slots for job in self._jobs])
        self._is_free = tree.free(free)
        self._may_take = self._is_free | tree.flags(leaving)
        """Leaves that are free or being given up, and promised to no job."""
        self._owner: Ints = np.full(len(self._is_free), -1)
        """For each leaf, the number of the job on it that may still have to leave it; -1: none."""
        for number, job in enumerate(self._jobs):
            if _is_power(job.num_slots):
                self._owner[self._leaves(number)] = number
        self._for_whom: dict[int, str] = {}
        """For each job that must leave its slots, the id of the waiting job that needs them."""

    def run(self) -> str | None:
        """Choose all blocks; return None if that succeeded.

        Otherwise return the id of a waiting job for which other jobs would have to move but cannot.
        """
        tasks: dict[int, list[int]] = {}
        for number, job in enumerate(self._jobs[: self._num_waiting]):
            tasks.setdefault(job.num_slots if _is_power(job.num_slots) else 0, []).append(number)
        size = len(self._is_free)
        while size:
            for number in tasks.get(size, ()):
                first = self._best_block(number, size)
                if first is not None:
                    for other in self._give(number, first, size):
                        tasks.setdefault(self._jobs[other].num_slots, []).append(other)
                elif number in self._for_whom:
                    return self._for_whom[number]
                else:
                    self.spread.append(self._jobs[number])
                    self._owner[self._leaves(number)] = -1
            size //= 2
        self.spread += [self._jobs[number] for number in tasks.get(0, ())]
        return None

    def _leaves(self, number: int) -> Ints:
        return self._tree.leaf_of[list(self._jobs[number].slots)]

    def _own(self, number: int) -> Ints:
        """Return the leaves of a job that grows, unless other jobs were given them."""
        grows = number < self._num_waiting and number not in self._for_whom
        return self._leaves(number) if grows else np.zeros(0, np.int64)

    def _best_block(self, number: int, size: int) -> int | None:
        """Return the first leaf of the best block for a job; None: there is none."""
        job, own = self._jobs[number], self._own(number)
        others = self._who_can_leave(number, size)
        others[own] = False
        is_own = np.zeros_like(others)
        is_own[own] = True
        is_open = self._is_free & self._may_take
        usable = self._may_take | others | is_own
        if job.device_type is not None:
            usable &= self._of_type(job.device_type)
        nodes = np.flatnonzero(_all_in(usable, size))
        at_home = int(own[0]) // size if len({*(own // size).tolist()}) == 1 else -1
        if len(own):
            # The job gives up its own block only if it can move at once, so that no job waits for
            # it.
            nodes = nodes[_all_in(is_open, size)[nodes] | (nodes == at_home)]
        if not len(nodes):
            return None
        owners = np.where(others, self._owner, -1).reshape(-1, size)[nodes]
        movers = [len({one for one in row if one >= self._num_waiting}) for row in owners.tolist()]
        is_late = ~_all_in(self._is_free | is_own, size)[nodes]
        around = idle_around(is_open, size, nodes)
        # The last key counts most.
        keys = [nodes, *reversed(around), nodes != at_home, is_late, (owners >= 0).sum(axis=1)]
        return int(nodes[np.lexsort([*keys, movers])[0]]) * size

    def _who_can_leave(self, number: int, size: int) -> Flags:
        """Return the leaves of jobs that are placed after this job and therefore may have to leave.

        These are smaller jobs, and waiting jobs of the same size.
        """
        # The last entry is for leaves without an owner.
        can: Flags = np.zeros(len(self._jobs) + 1, np.bool_)
        if self._for_whom.get(number, self._jobs[number].job_id) not in self._staying:
            can[:-1] = self._sizes < size
            can[: self._num_waiting] |= self._sizes[: self._num_waiting] == size
        found: Flags = can[self._owner]
        return found

    def _of_type(self, device_type: str) -> Flags:
        """Return the leaves with a slot of a device type."""
        slots = enumerate(self._tree.cluster.slots)
        return self._tree.flags(slot for slot, each in slots if each.device_type == device_type)

    def _give(self, number: int, first: int, size: int) -> list[int]:
        """Promise a block to a job; return the jobs in ``settled`` that have to leave it."""
        job, own = self._jobs[number], self._own(number)
        block = np.arange(first, first + size)
        slots = self._tree.slots(block)
        kept = tuple(slot for slot in job.slots if slot in slots) if len(own) else ()
        self.chosen[job.job_id] = kept + tuple(slot for slot in slots if slot not in kept)
        self.promised.update(slots)
        self._owner[own] = -1
        if not kept:
            self._may_take[own] = True  # safe, because the job moves at once
        self._may_take[block] = False
        leaving = [one for one in dict.fromkeys(self._owner[block].tolist()) if one >= 0]
        for other in leaving:
            self._for_whom[other] = self._for_whom.get(number, job.job_id)
            self._owner[self._leaves(other)] = -1
        return [other for other in leaving if other >= self._num_waiting]


def _all_in(flags: Flags, size: int) -> Flags:
    """Return, for every block of a size, whether all its leaves are flagged."""
    return np.asarray(flags.reshape(-1, size).all(axis=1), np.bool_)


def _is_power(number: int) -> bool:
    return number > 0 and number == power(number)
