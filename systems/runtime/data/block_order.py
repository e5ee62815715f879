"""EDL's dynamic data pipeline without messages: every worker computes the assignment of blocks.

Source: EDL (Wu et al., TPDS '22), section 4.4; ``papers/systems.md`` 1.7. The samples of a data set
are cut into *blocks* of consecutive ids, which are shuffled for every epoch and handed out on
demand. A worker reads its block from front to back. When the membership changes, the rest of each
assigned block is returned and handed out first.

Differs: no leader is asked. Every worker knows the state of all. Blocks are drawn at step
boundaries in rank order, so the assignment does not depend on when messages arrive. There is no
wait at the end of an epoch: the blocks of the next one follow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from systems.runtime.wire.data_order import DataState, Plan, Range, check_kind, share

_STREAM = zlib.crc32(b"block order")


@dataclass(frozen=True, slots=True)
class BlockState:
    """Blocks that have been handed out, and how far each has been read."""

    consumed: int
    epoch: int
    """Epoch of the block that is drawn next."""
    cursor: int
    """Start of that block in its epoch's sequence."""
    returned: tuple[Range, ...]
    """Rests of blocks at changes of the membership; they are handed out first, in this order."""
    assigned: tuple[Range, ...]
    """Rest of the block that each rank reads; may be empty."""

    @property
    def num_epochs(self) -> int:
        """Number of epochs whose samples have all been consumed."""
        left = (r.epoch for r in (*self.returned, *self.assigned) if r.start < r.stop)
        return min(self.epoch, min(left, default=self.epoch))

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "order": BlockOrder.kind,
            "consumed": self.consumed,
            "epoch": self.epoch,
            "cursor": self.cursor,
            "returned": [list(part) for part in self.returned],
            "assigned": [list(part) for part in self.assigned],
        }


class BlockOrder:
    """Blocks of consecutive sample ids, in a random order in every epoch.

    An epoch's sequence is its blocks in this order. Every sample is consumed once in every epoch,
    whatever the membership. The step and the worker that consume it depend on the membership.
    """

    kind: ClassVar[str] = "blocks"

    def __init__(self, seed: int, num_samples: int, block_samples: int) -> None:
        """Make the order of a job with this seed, ``num_samples`` an epoch and ``block_samples`` a
        block.

        The last block is shorter if the division leaves a remainder.

        Raises:
            ValueError: an epoch or a block has no samples.
        """
        for name, value in (("num_samples", num_samples), ("block_samples", block_samples)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        self.num_samples = num_samples
        self.block_samples = min(block_samples, num_samples)
        self._num_blocks = -(-num_samples // self.block_samples)
        self._last_size = num_samples - (self._num_blocks - 1) * self.block_samples
        self._seed = seed

    def initial(self) -> BlockState:
        """Return the state of a job that has consumed nothing."""
        return BlockState(0, 0, 0, (), ())

    def plan(self, state: DataState, num_workers: int, global_batch: int) -> Plan:
        """Return each worker's share of the batch, from its block and from those that it draws
        next."""
        before = cast(BlockState, state)
        pool = _Pool(self, before)
        assigned: Sequence[Range] = before.assigned
        if len(assigned) != num_workers:
            pool.returned[:0] = [part for part in assigned if part.start < part.stop]
            # In the order of ranks: every worker computes the same assignment by itself.
            assigned = [pool.draw() for _ in range(num_workers)]
        parts, left = [], []
        for rank, (epoch, start, end) in enumerate(assigned):
            begin, stop = share(global_batch, num_workers, rank)
            need = stop - begin
            ranges = []
            while True:
                taken = min(need, end - start)
                if taken:
                    ranges.append(Range(epoch, start, start + taken))
                    start += taken
                    need -= taken
                if not need:
                    break
                epoch, start, end = pool.draw()
            parts.append(tuple(ranges))
            left.append(Range(epoch, start, end))
        after = BlockState(
            before.consumed + global_batch,
            pool.epoch,
            pool.cursor,
            tuple(pool.returned),
            tuple(left),
        )
        return Plan(tuple(parts), after)

    def ids(self, ranges: Iterable[Range]) -> list[int]:
        """Return the sample ids in these ranges."""
        found: list[int] = []
        for epoch, start, stop in ranges:
            while start < stop:
                first, end = self._block_at(epoch, start)
                end = min(end, stop)
                found += range(first, first + end - start)
                start = end
        return found

    def _block_at(self, epoch: int, position: int) -> tuple[int, int]:
        """Return the sample id at a position, and the end of its block."""
        blocks, index = _blocks(self._seed, self._num_blocks, epoch)
        short = index * self.block_samples
        # Behind the short block, positions lack the samples that it does not have.
        shift = 0 if position < short + self._last_size else self.block_samples - self._last_size
        index, offset = divmod(position + shift, self.block_samples)
        start = position - offset
        return int(blocks[index]) * self.block_samples + offset, self.block_end(epoch, start)

    def block_end(self, epoch: int, start: int) -> int:
        """Return the end of the block that begins at ``start``."""
        index = _blocks(self._seed, self._num_blocks, epoch)[1]
        is_last = start == index * self.block_samples
        return start + (self._last_size if is_last else self.block_samples)

    def from_json(self, values: Mapping[str, Any]) -> BlockState:
        """Return the state that ``to_json`` described."""
        check_kind(values, self.kind)
        returned, assigned = (
            tuple(Range(*part) for part in values[name]) for name in ("returned", "assigned")
        )
        return BlockState(values["consumed"], values["epoch"], values["cursor"], returned, assigned)


@lru_cache(maxsize=8)
def _blocks(seed: int, num_blocks: int, epoch: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the blocks of an epoch in order, and the place of the short last one."""
    blocks = np.random.default_rng([seed, _STREAM, epoch]).permutation(num_blocks)
    return blocks, int(np.flatnonzero(blocks == num_blocks - 1)[0])


class _Pool:
    """Pool from which blocks are drawn while a step is planned."""

    def __init__(self, order: BlockOrder, state: BlockState) -> None:
        self._order = order
        self.epoch = state.epoch
        self.cursor = state.cursor
        self.returned = list(state.returned)

    def draw(self) -> Range:
        """Return a range that was given back, if there is one, otherwise the next block."""
        if self.returned:
            return self.returned.pop(0)
        drawn = Range(self.epoch, self.cursor, self._order.block_end(self.epoch, self.cursor))
        self.cursor = drawn.stop
        if self.cursor == self._order.num_samples:
            self.epoch, self.cursor = self.epoch + 1, 0
        return drawn
