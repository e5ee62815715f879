"""Memory of this process that malloc does not manage.

malloc keeps freed memory for later requests, and cuts new blocks out of it. If blocks that stay
(kept gradients) lie among short-lived ones (activations), the heap is fragmented. The next
activations do not fit, so the heap grows by more than the kept blocks. A separate mapping is
outside the heap, and returns to the system when it is released.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch

ALIGNMENT_BYTES = 64
"""Alignment of tensors, in bytes: a cache line of a core, and torch's own alignment on CPUs."""


def mapped(num_bytes: int) -> torch.Tensor:
    """Return ``num_bytes`` of memory, all zero, as a flat tensor of bytes that owns it.

    The system allocates pages when they are first used.

    Raises:
        OSError: the system has no room.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return torch.frombuffer(mmap.mmap(-1, num_bytes, flags=flags), dtype=torch.uint8)


def mapped_tensors(
    kinds: Sequence[tuple[tuple[int, ...], torch.dtype]],
) -> list[torch.Tensor]:
    """Return tensors of these shapes and types, all zero, in one mapping that is freed with the
    last."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in kinds]
    *starts, end = offsets(sizes)
    memory = mapped(max(end, 1))  # an empty mapping is impossible
    return [
        memory[start : start + size].view(dtype).view(shape)
        for start, size, (shape, dtype) in zip(starts, sizes, kinds, strict=True)
    ]


def offsets(sizes: Sequence[int]) -> list[int]:
    """Return the aligned starts of consecutive tensors of these sizes in bytes, followed by their
    end."""
    found = [0]
    for size in sizes:
        found.append(found[-1] + -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    return found
