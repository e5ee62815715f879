"""The samples that each step consumes, as a function of the seed and of what was consumed before.

An *order* is pure arithmetic and the same in every worker. Its inputs are the state of the data at
a step boundary, the number of workers and the global batch. From them follow each worker's samples
in the next step, and the state after it. Workers need no messages for it, so this state is common
to all workers, like the parameters.

An order arranges the samples of every epoch in a sequence. A *range* is a piece of such a sequence;
``ids`` returns its sample ids.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

_STREAM = zlib.crc32(b"data order")


class Range(NamedTuple):
    """Piece of an epoch's sequence of samples; ``stop`` is exclusive."""

    epoch: int
    start: int
    stop: int


class DataState(Protocol):
    """Consumption of samples up to a step boundary. Immutable."""

    @property
    def consumed(self) -> int:
        """Number of samples consumed so far."""
        ...

    @property
    def num_epochs(self) -> int:
        """Number of epochs, from the first on, whose samples have all been consumed."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values, for checkpoints and for workers that join."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Samples that one step consumes."""

    parts: tuple[tuple[Range, ...], ...]
    """Ranges of each rank."""
    after: DataState
    """State after the step."""


class DataOrder(Protocol):
    """Order of a job's samples."""

    kind: ClassVar[str]
    num_samples: int
    """Number of samples in an epoch."""

    def initial(self) -> DataState:
        """Return the state of a job that has consumed nothing."""
        ...

    def plan(self, state: DataState, num_workers: int, global_batch: int) -> Plan:
        """Return what each of ``num_workers`` workers consumes in the step after ``state``; pure.

        Raises:
            ValueError: a worker would get no sample.
        """
        ...

    def ids(self, ranges: Iterable[Range]) -> list[int]:
        """Return the sample ids in these ranges, in their order."""
        ...

    def from_json(self, values: Mapping[str, Any]) -> DataState:
        """Return the state that its ``to_json`` described.

        Raises:
            ValueError: the values are not a state of this order.
        """
        ...


def data_order(kind: str, seed: int, num_samples: int, block_samples: int) -> DataOrder:
    """Return the order called ``kind``.

    Args:
        kind: ``positions`` or ``blocks``.
        seed: seed of the job.
        num_samples: samples of an epoch.
        block_samples: samples of a block; only ``blocks`` needs it.

    Raises:
        ValueError: the kind is unknown, or the numbers are invalid.
    """
    from systems.runtime.data.block_order import BlockOrder  # here, since it imports this module

    if kind == PositionOrder.kind:
        return PositionOrder(seed, num_samples)
    if kind == BlockOrder.kind:
        return BlockOrder(seed, num_samples, block_samples)
    raise ValueError(f"data order {kind!r} is unknown; known: {PositionOrder.kind}, blocks")


@dataclass(frozen=True, slots=True)
class PositionState:
    """Position of a job in its one sequence of samples."""

    consumed: int
    num_samples: int

    @property
    def num_epochs(self) -> int:
        """Number of completed epochs."""
        return self.consumed // self.num_samples

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"order": PositionOrder.kind, "consumed": self.consumed}


class PositionOrder:
    """One endless sequence: a permutation of all ids for epoch 0, another for epoch 1, ...

    A step takes the next ``global_batch`` samples, if necessary across the end of an epoch, and its
    workers take contiguous slices of them. So the samples of a step are the same on any number of
    workers, and the batch may change at any step.
    """

    kind: ClassVar[str] = "positions"

    def __init__(self, seed: int, num_samples: int) -> None:
        """Make the order of a job with this seed and ``num_samples`` an epoch.

        Raises:
            ValueError: an epoch has no samples.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples is {num_samples}; an epoch needs at least 1 sample")
        self.num_samples = num_samples
        self._seed = seed

    def initial(self) -> PositionState:
        """Return the state of a job that has consumed nothing."""
        return PositionState(0, self.num_samples)

    def plan(self, state: DataState, num_workers: int, global_batch: int) -> Plan:
        """Return the workers' slices of the next ``global_batch`` samples."""
        begin = state.consumed
        slices = [share(global_batch, num_workers, rank) for rank in range(num_workers)]
        parts = tuple(tuple(self._ranges(begin + start, begin + stop)) for start, stop in slices)
        return Plan(parts, PositionState(begin + global_batch, self.num_samples))

    def _ranges(self, start: int, stop: int) -> Iterable[Range]:
        while start < stop:
            epoch, offset = divmod(start, self.num_samples)
            end = min(offset + stop - start, self.num_samples)
            yield Range(epoch, offset, end)
            start += end - offset

    def ids(self, ranges: Iterable[Range]) -> list[int]:
        """Return the sample ids in these ranges."""
        found: list[int] = []
        for epoch, start, stop in ranges:
            found += _permutation(self._seed, self.num_samples, epoch)[start:stop].tolist()
        return found

    def from_json(self, values: Mapping[str, Any]) -> PositionState:
        """Return the state that ``to_json`` described."""
        check_kind(values, self.kind)
        return PositionState(values["consumed"], self.num_samples)


@lru_cache(maxsize=4)
def _permutation(seed: int, num_samples: int, epoch: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([seed, _STREAM, epoch]).permutation(num_samples)


def epochs_of(ranges: Iterable[Range]) -> list[int]:
    """Return the epoch of every sample in these ranges, in their order."""
    return [part.epoch for part in ranges for _ in range(part.start, part.stop)]


def check_kind(values: Mapping[str, Any], kind: str) -> None:
    """Refuse the state of another kind of order.

    Raises:
        ValueError: the state is of another kind.
    """
    if values.get("order") != kind:
        raise ValueError(
            f"the data's state is of the order {values.get('order')!r}, not {kind!r};"
            f" set data_order={values.get('order')} to go on from it"
        )


def share(global_batch: int, num_workers: int, rank: int) -> tuple[int, int]:
    """Return begin and end of a worker's slice of a global batch, relative to the step's position.

    The remainder of the division goes to the first ranks, one sample each.

    Raises:
        ValueError: a worker would get no sample.
    """
    if global_batch < num_workers:
        raise ValueError(
            f"a global batch of {global_batch} cannot be shared by {num_workers} workers"
        )
    base, rest = divmod(global_batch, num_workers)
    start = rank * base + min(rank, rest)
    return start, start + base + (rank < rest)


EVERY_RANK = -1
"""Rank of the random state that all workers share between a backward pass and the next batch."""


def step_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of one worker's random state in one step, 63 bits.

    The seed is a hash, since NumPy's own seed mixing would take 24 us of every step.
    """
    name = f"step/{seed}/{step}/{rank}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1
