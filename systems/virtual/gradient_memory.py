"""Memory for the gradients of a slot's virtual workers, one copy each, and for their sum.

A copy has the layout of DistributedDataParallel's buckets: a sum's last bits depend on where in a
bucket a gradient lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from systems.runtime.reduction.ordered import BucketLayout
from systems.virtual.host_memory import HostMemory
from systems.virtual.mapped_memory import mapped, offsets


class GradientMemory:
    """One copy for each virtual worker and two tensors for the sum; each holds all buckets.

    Other slots of the host read the copies, and the part of the sum that this slot has made. Only
    this slot sees the complete sum. An update may change it in place, for example to clip
    gradients, while another slot still reads its part.
    """

    def __init__(self, layouts: Sequence[Sequence[BucketLayout]]) -> None:
        """Allocate the sum. Args: ``layouts``: layouts of the same gradients; each copy has room
        for any."""
        self.num_bytes = max(_offsets(layout)[-1] for layout in layouts)
        """Number of bytes of one copy."""
        self.total = mapped(self.num_bytes)
        self.part = HostMemory(self.num_bytes)
        self.copies: list[HostMemory] = []

    def renew_part(self) -> None:
        """Allocate another part and leave the old one alone: another slot may still read it."""
        self.part = HostMemory(self.num_bytes)

    def resize(self, num_copies: int) -> None:
        """Change the number of copies; remaining ones keep their contents."""
        del self.copies[num_copies:]
        while len(self.copies) < num_copies:
            self.copies.append(HostMemory(self.num_bytes))


def buckets_of(memory: torch.Tensor, layout: Sequence[BucketLayout]) -> list[torch.Tensor]:
    """Return the buckets of a layout in flat memory, as flat tensors."""
    return [
        memory[start : start + bucket.numel * bucket.dtype.itemsize].view(bucket.dtype)
        # Not strict: the last offset is the end of all buckets.
        for start, bucket in zip(_offsets(layout), layout, strict=False)
    ]


def _offsets(layout: Sequence[BucketLayout]) -> list[int]:
    """Return the start of each bucket, followed by the end of all."""
    return offsets([bucket.numel * bucket.dtype.itemsize for bucket in layout])
