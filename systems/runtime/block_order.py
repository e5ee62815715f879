"""EDL's dynamic data pipeline, without messages: blocks handed out by arithmetic.

Source: EDL (Wu et al., TPDS '22), section 4.4; ``papers/systems.md`` 1.7. The samples of a
data set are cut into *blocks* of consecutive ids, which are shuffled for every epoch and
handed out on demand. A worker reads its block from front to back. When the membership
changes, what is left of the assigned blocks goes back and is handed out first.

Differs: no leader is asked. Every worker knows the state of all, and blocks are drawn at step
boundaries in rank order, so that who reads what does not depend on when messages arrive.
There is no wait at the end of an epoch: the blocks of the next one follow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from systems.runtime.data_order import DataState, Plan, Range, check_kind, share

_STREAM = zlib.crc32(b"block order")


@dataclass(frozen=True, slots=True)
class BlockState:
    """Which blocks have been handed out, and how far each has been read."""

    consumed: int
    epoch: int
    """Of the block that is drawn next."""
    cursor: int
    """Where that block begins in its epoch's sequence."""
    returned: tuple[Range, ...]
    """What was left of blocks when the membership changed; handed out first, in this order."""
    assigned: tuple[Range, ...]
    """By rank: what is left of the block that the worker reads; may be empty."""

    @property
    def num_epochs(self) -> int:
        """Epochs of which nothing is left: not in the pool, not in any worker's hands."""
        left = (r.epoch for r in (*self.returned, *self.assigned) if r.start < r.stop)
        return min(self.epoch, min(left, default=self.epoch))

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values."""
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

    An epoch's sequence is its blocks one after the other. Every sample is consumed once in
    every epoch, whatever becomes of the membership; in which step and by whom depends on it.
    """

    kind: ClassVar[str] = "blocks"

    def __init__(self, seed: int, num_samples: int, block_samples: int) -> None:
        """Args: the job's seed, samples of an epoch, and samples of a block.

        The last block has fewer samples where they do not divide.

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
        """Nothing handed out."""
        return BlockState(0, 0, 0, (), ())

    def plan(self, state: DataState, num_workers: int, global_batch: int) -> Plan:
        """Each worker's share of the batch, from its block and those that it draws after it."""
        before = cast(BlockState, state)
        pool = _Pool(self, before)
        assigned: Sequence[Range] = before.assigned
        if len(assigned) != num_workers:
            pool.returned[:0] = [part for part in assigned if part.start < part.stop]
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
        """The sample ids in some ranges."""
        found: list[int] = []
        for epoch, start, stop in ranges:
            while start < stop:
                first, end = self._block_at(epoch, start)
                end = min(end, stop)
                found += range(first, first + end - start)
                start = end
        return found

    def _block_at(self, epoch: int, position: int) -> tuple[int, int]:
        """The sample id at a position, and where its block ends."""
        blocks, index = _blocks(self._seed, self._num_blocks, epoch)
        short = index * self.block_samples
        shift = 0 if position < short + self._last_size else self.block_samples - self._last_size
        index, offset = divmod(position + shift, self.block_samples)
        start = position - offset
        return int(blocks[index]) * self.block_samples + offset, self.block_end(epoch, start)

    def block_end(self, epoch: int, start: int) -> int:
        """Where the block that begins at ``start`` ends."""
        index = _blocks(self._seed, self._num_blocks, epoch)[1]
        is_last = start == index * self.block_samples
        return start + (self._last_size if is_last else self.block_samples)

    def from_json(self, values: Mapping[str, Any]) -> BlockState:
        """A state from what ``to_json`` gave."""
        check_kind(values, self.kind)
        returned, assigned = (
            tuple(Range(*part) for part in values[name]) for name in ("returned", "assigned")
        )
        return BlockState(values["consumed"], values["epoch"], values["cursor"], returned, assigned)


@lru_cache(maxsize=8)
def _blocks(seed: int, num_blocks: int, epoch: int) -> tuple[npt.NDArray[np.int64], int]:
    """The blocks of an epoch in their order, and the place of the last one, which is short."""
    blocks = np.random.default_rng([seed, _STREAM, epoch]).permutation(num_blocks)
    return blocks, int(np.flatnonzero(blocks == num_blocks - 1)[0])


class _Pool:
    """Where blocks are drawn from while a step is planned."""

    def __init__(self, order: BlockOrder, state: BlockState) -> None:
        self._order = order
        self.epoch = state.epoch
        self.cursor = state.cursor
        self.returned = list(state.returned)

    def draw(self) -> Range:
        """What was returned first, then the next block."""
        if self.returned:
            return self.returned.pop(0)
        drawn = Range(self.epoch, self.cursor, self._order.block_end(self.epoch, self.cursor))
        self.cursor = drawn.stop
        if self.cursor == self._order.num_samples:
            self.epoch, self.cursor = self.epoch + 1, 0
        return drawn
