"""The gradients of the virtual workers on one slot, one copy each, and their sum.

A copy holds the gradients of one virtual worker in the layout of DistributedDataParallel's
buckets: a sum's last bits depend on where in a bucket a gradient lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from systems.runtime.reduction import BucketLayout
from systems.virtual.host_memory import HostMemory
from systems.virtual.mapped_memory import mapped, offsets


class GradientMemory:
    """One copy for each virtual worker, and two for the sum; all hold all buckets.

    Other slots of the host read the copies, and the part of the sum that this slot has made. The
    whole sum is for this slot alone: an update may change it in place (to clip gradients, say)
    while another slot still takes its part.
    """

    def __init__(self, layouts: Sequence[Sequence[BucketLayout]]) -> None:
        """Args: layouts of the same gradients, any of which the memory may be used for."""
        self.num_bytes = max(_offsets(layout)[-1] for layout in layouts)
        """Of one copy."""
        self.total = mapped(self.num_bytes)
        self.part = HostMemory(self.num_bytes)
        self.copies: list[HostMemory] = []

    def renew_part(self) -> None:
        """Let the part that was made be: another slot may still read it."""
        self.part = HostMemory(self.num_bytes)

    def resize(self, num_copies: int) -> None:
        """Have so many copies; those that stay keep what they hold."""
        del self.copies[num_copies:]
        while len(self.copies) < num_copies:
            self.copies.append(HostMemory(self.num_bytes))


def buckets_of(memory: torch.Tensor, layout: Sequence[BucketLayout]) -> list[torch.Tensor]:
    """The buckets of a layout in flat memory, as flat tensors."""
    return [
        memory[start : start + bucket.numel * bucket.dtype.itemsize].view(bucket.dtype)
        for start, bucket in zip(_offsets(layout), layout, strict=False)
    ]


def _offsets(layout: Sequence[BucketLayout]) -> list[int]:
    """Where each bucket begins; the last one is where all end."""
    return offsets([bucket.numel * bucket.dtype.itemsize for bucket in layout])
