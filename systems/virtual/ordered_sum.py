"""Sum of the gradients of N virtual workers, in the order in which N processes would add them.

Source: EasyScale (Li et al., SC '23), section 3.3: gradients are added up as if every virtual
worker were a process of the all-reduce. Differs: the paper fixes the ranks in the ring of a
library; here this module makes the sums, in gloo's order (``ring_order``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.machine.gloo_ring import ring_chunks

BLOCK_ELEMENTS = 1 << 16
"""Number of elements summed at once, so that the result stays in a core's own cache."""
ALIGNED_ELEMENTS = 64
"""Parts of different slots begin at multiples of this number of elements."""


@dataclass(frozen=True, slots=True)
class Block:
    """Elements of one bucket that are summed in one order."""

    bucket: int
    start: int
    stop: int
    order: tuple[int, ...]


def part_of(numel: int, part: int, num_parts: int) -> tuple[int, int]:
    """Return begin and end of one of the parts into which a bucket of ``numel`` elements is cut."""

    def cut(index: int) -> int:
        if index == num_parts:
            return numel
        # Where a bucket is cut changes no bits: each element is summed by itself.
        return numel * index // num_parts // ALIGNED_ELEMENTS * ALIGNED_ELEMENTS

    return cut(part), cut(part + 1)


def plan_blocks(
    buckets: Sequence[tuple[int, int]], num_workers: int, part: int = 0, num_parts: int = 1
) -> tuple[Block, ...]:
    """Return the blocks that one of ``num_parts`` slots sums.

    Args:
        buckets: number of elements, and bytes of one element, of every bucket.
        num_workers: number of virtual workers.
        part: index of the slot's part.
        num_parts: number of parts.
    """
    blocks = []
    for bucket, (numel, element_bytes) in enumerate(buckets):
        first, last = part_of(numel, part, num_parts)
        for chunk in ring_chunks(numel, element_bytes, num_workers):
            stop = min(last, chunk.stop)
            for start in range(max(first, chunk.start), stop, BLOCK_ELEMENTS):
                end = min(start + BLOCK_ELEMENTS, stop)
                blocks.append(Block(bucket, start, end, chunk.order))
    return tuple(blocks)


class OrderedSum:
    """Sums over fixed memory, prepared once and computed in every step."""

    def __init__(
        self,
        blocks: Sequence[Block],
        copies: Sequence[Sequence[torch.Tensor]],
        totals: Sequence[torch.Tensor],
    ) -> None:
        """Prepare the sums.

        Args:
            blocks: elements to sum, and their order.
            copies: flat tensors by virtual worker, then bucket.
            totals: destination of the sums, by bucket; it must not overlap the copies.
        """
        self._sums = [
            (
                totals[block.bucket][block.start : block.stop],
                [copies[worker][block.bucket][block.start : block.stop] for worker in block.order],
            )
            for block in blocks
        ]

    @torch.no_grad()
    def run(self) -> None:
        """Compute all sums."""
        for total, terms in self._sums:
            if len(terms) == 1:
                total.copy_(terms[0])
                continue
            # From left to right, term by term: any other order would give other last bits.
            torch.add(terms[0], terms[1], out=total)
            for term in terms[2:]:
                total.add_(term)
