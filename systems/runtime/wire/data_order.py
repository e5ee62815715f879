"""The samples that each step consumes, as a function of the seed and of what was consumed before.

An *order* is pure arithmetic and the same in every worker. Its inputs are the state of the data at
a step boundary, the number of workers and the global batch. From them follow each worker's samples
in the next step, and the state after it. Workers need no messages for it, so this state is common
to all workers, like the parameters.

An order arranges the samples of every epoch in a sequence. A *range* is a piece of such a sequence;
``ids`` returns its sample ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol


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
