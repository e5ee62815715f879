"""Order of samples by position: one endless sequence, of which each step takes the next part."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from systems.runtime.wire.data_order import DataState, Plan, Range, check_kind, share

# docs/reference/bits.md specifies this stream: another text would change the samples of every step.
_STREAM = zlib.crc32(b"data order")


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
