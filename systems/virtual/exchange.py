"""Sums of gradients over virtual workers on different slots.

On one host every slot reads all copies in place and sums a part of the elements; then each slot
takes all parts. So each element is summed once, and nothing is sent. Across hosts, or if the kernel
forbids shared memory, the copies are sent.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Protocol

import torch

from systems.runtime.reduction.ordered import BucketLayout
from systems.runtime.tensors.memory import host_identity
from systems.runtime.wire.groups import Group
from systems.virtual.gradient_memory import GradientMemory, buckets_of
from systems.virtual.host_memory import open_other
from systems.virtual.ordered_sum import OrderedSum, part_of, plan_blocks

_Layout = Sequence[BucketLayout]


class Exchange(Protocol):
    """One slot's part in the sum of every step."""

    def run(self) -> None:
        """Bring the complete sum into this slot's total.

        Raises:
            GroupLost: a slot was lost.
        """
        ...


def exchange_over(
    group: Group, memory: GradientMemory, layout: _Layout, num_workers: int, local: range
) -> Exchange:
    """Return the best exchange that all slots of a group can use; all must call this together.

    Args:
        group: process group of the slots.
        memory: memory of this slot: a copy for each of its virtual workers, and the total.
        layout: layout of the buckets, the same on all slots.
        num_workers: number of virtual workers of the job.
        local: virtual workers of this slot.

    Raises:
        GroupLost: a slot was lost.
    """
    introduced = _introduce(group, memory, num_workers, local)
    opened = _open_all(group, introduced, memory, local)
    # Either all slots share memory or none does.
    failures = torch.tensor([opened is None], dtype=torch.int64)
    group.all_reduce(failures).wait()
    if opened is not None and not int(failures):
        return SharedExchange(group, *opened, memory.total, layout)
    owners = introduced[:num_workers, _OWNER].tolist()
    return TravellingExchange(group, memory, layout, local, owners)


_HOST, _PROCESS, _DESCRIPTOR, _OWNER = range(4)


def _introduce(
    group: Group, memory: GradientMemory, num_workers: int, local: range
) -> torch.Tensor:
    """Return the locations of all copies, by virtual worker, followed by all parts, by rank."""
    rows = torch.zeros(num_workers + group.size, 4, dtype=torch.int64)
    host = zlib.crc32(host_identity().encode()) if host_identity() else 0
    for worker, copy in zip(local, memory.copies, strict=True):
        rows[worker] = torch.tensor([host, os.getpid(), copy.descriptor, group.rank])
    rows[num_workers + group.rank] = torch.tensor(
        [host, os.getpid(), memory.part.descriptor, group.rank]
    )
    # Each row is written by one slot and zero on all others, so the sum gathers.
    group.all_reduce(rows).wait()
    return rows


def _open_all(
    group: Group, introduced: torch.Tensor, memory: GradientMemory, local: range
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """Return all copies and all parts as flat bytes; None if one cannot be opened."""
    rows = introduced.tolist()
    # Descriptors mean something on one host only; 0 is an unknown one.
    if any(row[_HOST] != rows[0][_HOST] or not row[_HOST] for row in rows):
        return None
    num_workers = len(rows) - group.size
    found: list[torch.Tensor] = []
    for index, (_, process, descriptor, _) in enumerate(rows):
        if index in local:
            found.append(memory.copies[index - local.start].bytes)
        elif index == num_workers + group.rank:
            found.append(memory.part.bytes)
        else:
            try:
                found.append(open_other(process, descriptor, memory.num_bytes))
            except (OSError, ValueError):
                return None
    return found[:num_workers], found[num_workers:]


class SharedExchange:
    """Exchange between slots of one host, each with all copies and parts in its memory."""

    def __init__(
        self,
        group: Group,
        copies: Sequence[torch.Tensor],
        parts: Sequence[torch.Tensor],
        total: torch.Tensor,
        layout: _Layout,
    ) -> None:
        """Prepare the sums.

        Args:
            group: process group of the slots.
            copies: flat bytes, by virtual worker.
            parts: flat bytes, by rank.
            total: flat bytes that no other slot can see.
            layout: layout of the buckets.
        """
        self._group = group
        self._signal = torch.zeros(1)
        shapes = [(bucket.numel, bucket.dtype.itemsize) for bucket in layout]
        blocks = plan_blocks(shapes, len(copies), group.rank, group.size)
        by_rank = [buckets_of(part, layout) for part in parts]
        everybodys = [buckets_of(copy, layout) for copy in copies]
        self._sum = OrderedSum(blocks, everybodys, by_rank[group.rank])
        self._taken = [
            (whole[start:stop], part[start:stop])
            for rank, buckets in enumerate(by_rank)
            for whole, part in zip(buckets_of(total, layout), buckets, strict=True)
            for start, stop in [part_of(whole.numel(), rank, group.size)]
            if start < stop
        ]

    @torch.no_grad()
    def run(self) -> None:
        """See ``Exchange``."""
        self._meet()  # wait until all copies are complete
        self._sum.run()
        self._meet()  # wait until all parts are complete and no slot reads copies any more
        # Into memory of its own: the update may change the sum in place while another slot still
        # reads this slot's part. Parts are written again only after the next step's first meeting,
        # which every slot reaches after this copy.
        for whole, part in self._taken:
            whole.copy_(part)

    def _meet(self) -> None:
        self._group.all_reduce(self._signal).wait()


class TravellingExchange:
    """Exchange between slots of several hosts: all copies go to all slots, and each sums
    everything."""

    def __init__(
        self,
        group: Group,
        memory: GradientMemory,
        layout: _Layout,
        local: range,
        owners: Sequence[int],
    ) -> None:
        """Prepare the sums. Args: ``owners``: rank of the slot that runs each virtual worker."""
        self._group = group
        self._owners = owners
        self._copies = [
            memory.copies[worker - local.start].bytes
            if worker in local
            else torch.zeros(memory.num_bytes, dtype=torch.uint8)
            for worker in range(len(owners))
        ]
        shapes = [(bucket.numel, bucket.dtype.itemsize) for bucket in layout]
        copies = [buckets_of(copy, layout) for copy in self._copies]
        totals = buckets_of(memory.total, layout)
        self._sum = OrderedSum(plan_blocks(shapes, len(owners)), copies, totals)

    def run(self) -> None:
        """See ``Exchange``."""
        # In the order of the workers on every slot: operations of a group are paired by their
        # order.
        sent = [
            self._group.broadcast(copy, owner)
            for copy, owner in zip(self._copies, self._owners, strict=True)
        ]
        for pending in sent:
            pending.wait()
        self._sum.run()
