"""Assignment of virtual workers to slots. The module does not import torch.

Slots have consecutive virtual workers, in rank order. So the first slot runs worker 0, whose
buffers all workers use.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from harness.errors import WorkerError


class AssignmentError(WorkerError, ValueError):
    """Virtual workers cannot be given to these slots; the text gives the reason."""


def split_evenly(num_workers: int, num_slots: int) -> tuple[int, ...]:
    """Return the number of virtual workers of each slot if all slots are equally fast.

    The first slots run one more if the division leaves a remainder.

    Raises:
        AssignmentError: a slot would have no worker.
    """
    if not 1 <= num_slots <= num_workers:
        raise AssignmentError(
            f"{num_workers} logical workers cannot be given to {num_slots} slots; use 1 to"
            f" {num_workers} slots, or give the job more logical workers"
        )
    base, rest = divmod(num_workers, num_slots)
    return tuple(base + (slot < rest) for slot in range(num_slots))


def split_slots(counts: Sequence[int], most: int) -> tuple[tuple[int, int], ...]:
    """Return slot index and number of virtual workers for each executor.

    Args:
        counts: virtual workers of each slot.
        most: largest number of executors of a slot; a slot with fewer virtual workers has one
            executor for each.
    """
    return tuple(
        (slot, part)
        for slot, count in enumerate(counts)
        for part in split_evenly(count, min(most, count))
    )


def check_counts(counts: Sequence[int], num_workers: int, num_slots: int) -> tuple[int, ...]:
    """Return ``counts`` if they give all virtual workers to the slots, at least one to each.

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
    """Return the virtual workers of each slot, by rank."""
    return tuple(range(start, stop) for start, stop in pairwise((0, *accumulate(counts))))
