"""Memory of this process that malloc does not manage.

malloc keeps what is freed for later requests, and cuts new blocks out of it. Blocks that stay
(gradients that are kept) among those that come and go (activations) cut its heap into pieces that
the next activations do not fit into, so that it grows by more than what is kept. A mapping of its
own is beside the heap, and goes back to the system when it is let go.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch

ALIGNMENT_BYTES = 64
"""Tensors begin at multiples of it: a line of a core's cache, and torch's own alignment on CPUs."""


def mapped(num_bytes: int) -> torch.Tensor:
    """So much memory, all zero, as a flat tensor of bytes, which holds it.

    The system hands pages out when they are first used.

    Raises:
        OSError: the system has no room.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return torch.frombuffer(mmap.mmap(-1, num_bytes, flags=flags), dtype=torch.uint8)


def mapped_tensors(
    kinds: Sequence[tuple[tuple[int, ...], torch.dtype]],
) -> list[torch.Tensor]:
    """Tensors of these shapes and types, all zero, in one mapping, which goes with the last."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in kinds]
    *starts, end = offsets(sizes)
    memory = mapped(max(end, 1))  # there is no empty mapping
    return [
        memory[start : start + size].view(dtype).view(shape)
        for start, size, (shape, dtype) in zip(starts, sizes, kinds, strict=True)
    ]


def offsets(sizes: Sequence[int]) -> list[int]:
    """Where tensors of so many bytes begin that lie one after the other, aligned; the last one is
    where all end."""
    found = [0]
    for size in sizes:
        found.append(found[-1] + -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    return found
