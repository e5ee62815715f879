"""Adds up the gradients of N virtual workers in the order in which N processes would.

Source: EasyScale (Li et al., SC '23), section 3.3: gradients are added up as if every virtual
worker were a process of the all-reduce. Differs: the paper fixes the ranks in the ring of a
library; here the sums are made by hand, in gloo's order (``ring_order``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.ring_order import ring_chunks

BLOCK_ELEMENTS = 1 << 16
"""Elements that are added up in one go: the result stays in a core's own cache meanwhile."""
ALIGNED_ELEMENTS = 64
"""Parts of different slots begin at multiples of this."""


@dataclass(frozen=True, slots=True)
class Block:
    """Elements of one bucket that are added up in one order."""

    bucket: int
    start: int
    stop: int
    order: tuple[int, ...]


def part_of(numel: int, part: int, num_parts: int) -> tuple[int, int]:
    """Begin and end of one of the parts that a bucket of ``numel`` elements is cut into."""

    def cut(index: int) -> int:
        if index == num_parts:
            return numel
        return numel * index // num_parts // ALIGNED_ELEMENTS * ALIGNED_ELEMENTS

    return cut(part), cut(part + 1)


def plan_blocks(
    buckets: Sequence[tuple[int, int]], num_workers: int, part: int = 0, num_parts: int = 1
) -> tuple[Block, ...]:
    """What one of ``num_parts`` helpers adds up.

    Args:
        buckets: elements, and bytes of one, of every bucket.
        num_workers: virtual workers.
        part: which helper.
        num_parts: helpers.
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
    """Sums over fixed memory, prepared once and made in every step."""

    def __init__(
        self,
        blocks: Sequence[Block],
        copies: Sequence[Sequence[torch.Tensor]],
        totals: Sequence[torch.Tensor],
    ) -> None:
        """Args: what to add up.

        Args:
            blocks: which elements, in which order.
            copies: flat tensors by virtual worker, then bucket.
            totals: where the sums go, by bucket; none of the copies' memory.
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
        """Make all sums."""
        for total, terms in self._sums:
            if len(terms) == 1:
                total.copy_(terms[0])
                continue
            torch.add(terms[0], terms[1], out=total)
            for term in terms[2:]:
                total.add_(term)
