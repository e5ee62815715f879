"""Which virtual workers a slot runs. Torch-free.

Slots have consecutive virtual workers, in rank order: the first slot runs worker 0, whose buffers
are everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise


class AssignmentError(ValueError):
    """Virtual workers that cannot be given to these slots; the text says why."""


def split_evenly(num_workers: int, num_slots: int) -> tuple[int, ...]:
    """How many of ``num_workers`` virtual workers each slot runs where all are equally fast; the
    first slots run one more if need be.

    Raises:
        AssignmentError: there is none for some slot.
    """
    if not 1 <= num_slots <= num_workers:
        raise AssignmentError(
            f"{num_workers} logical workers cannot be given to {num_slots} slots; use 1 to"
            f" {num_workers} slots, or give the job more logical workers"
        )
    base, rest = divmod(num_workers, num_slots)
    return tuple(base + (slot < rest) for slot in range(num_slots))


def split_slots(counts: Sequence[int], most: int) -> tuple[tuple[int, int], ...]:
    """Which virtual workers the executors of each slot run: the slot's index, and how many.

    Args:
        counts: virtual workers of each slot.
        most: executors of a slot; one that has fewer virtual workers has as many executors.
    """
    return tuple(
        (slot, part)
        for slot, count in enumerate(counts)
        for part in split_evenly(count, min(most, count))
    )


def check_counts(counts: Sequence[int], num_workers: int, num_slots: int) -> tuple[int, ...]:
    """``counts`` if they give all virtual workers to the slots, each slot at least one.

    Raises:
        AssignmentError: they do not.
    """
    if len(counts) != num_slots or sum(counts) != num_workers or min(counts) < 1:
        raise AssignmentError(
            f"virtual workers {tuple(counts)} are not {num_workers} on {num_slots} slots, at least"
            " one on each"
        )
    return tuple(counts)


def ranges(counts: Sequence[int]) -> tuple[range, ...]:
    """The virtual workers of each slot, by rank."""
    return tuple(range(start, stop) for start, stop in pairwise((0, *accumulate(counts))))
