"""Order in which gloo's ring adds up a tensor of N workers. Torch-free.

A sum of floating-point numbers depends on the order of its terms. So the bits of stock
DistributedDataParallel on N workers require the order of its all-reduce. Gloo cuts a tensor into N
*chunks*, and the partial sum of each travels once round the ring. This was found by comparing bits
(``tests/virtual/test_ring_order.py`` does so with real groups). Gloo does not document this order,
so the tests check that it still applies.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_SEGMENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements ``start`` to ``stop`` of a tensor, and the order in which the ranks' terms are
    added."""

    start: int
    stop: int
    order: tuple[int, ...]
    """Ranks in the order of their terms."""


def ring_chunks(numel: int, element_bytes: int, num_workers: int) -> tuple[Chunk, ...]:
    """Return the chunks of a tensor that are not empty, in the order of their elements.

    Args:
        numel: elements of the tensor.
        element_bytes: size of one element.
        num_workers: workers whose tensors are added up.
    """
    num_segments = num_workers * max(2, -(-_segments(numel * element_bytes) // num_workers))
    # Segments begin at whole elements; the last ones may be short or empty.
    per_segment = -(-(numel * element_bytes) // num_segments)
    per_segment = -(-per_segment // element_bytes)
    per_chunk = per_segment * (num_segments // num_workers)
    chunks = []
    for index in range(num_workers):
        start, stop = min(numel, index * per_chunk), min(numel, (index + 1) * per_chunk)
        if start < stop:
            order = tuple((index - 1 - hop) % num_workers for hop in range(num_workers))
            chunks.append(Chunk(start, stop, order))
    return tuple(chunks)


def _segments(num_bytes: int) -> int:
    return -(-num_bytes // MAX_SEGMENT_BYTES)
