"""Interface between data sets and workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.contracts.workload import Batch
from harness.errors import StoredDataError
from workloads.data.augmentation import Augmented


class DataError(StoredDataError, ValueError):
    """Error for unusable files. ``problems`` has one line for each: place, fact and way out."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)

    def __reduce__(self) -> tuple[type[DataError], tuple[list[str]]]:
        return type(self), (self.problems,)


class SampleSet(Protocol):
    """Samples 0..len-1, each a pure function of its id."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return the samples with these ids, stacked in this order, with their ``label``.

        Raises:
            IndexError: an id is outside 0..len-1 (negative ids do not count from the end).
        """
        ...


@dataclass(frozen=True, slots=True)
class DataSet:
    """Training set, held-out samples, and facts about both."""

    train: SampleSet
    held_out: SampleSet
    num_labels: int
    """Number of labels."""
    augmented: Augmented
    """Function that varies training samples, if augmentation is requested."""


def checked_ids(ids: Sequence[int], num_samples: int) -> npt.NDArray[np.int64]:
    """Return the ids as an array.

    Raises:
        IndexError: there is no id, or one lies outside 0..num_samples-1.
    """
    array = np.asarray(ids, dtype=np.int64)
    if array.size == 0:
        raise IndexError("no sample ids; a batch has at least one sample")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_samples:
        raise IndexError(
            f"sample id {low if low < 0 else high} is outside 0..{num_samples - 1}; reduce ids "
            "modulo the number of samples"
        )
    return array
