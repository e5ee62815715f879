"""Speed of slots that run a job's virtual workers, as both engine and scheduler compute it.

A job has a fixed number of virtual workers. In every step each computes a local mini-batch of
``global_batch / num_logical_workers`` samples, one after the other on its slot. The step ends with
the slowest slot (EasyScale, section 3.4.1, eq. 1b). Communication is left out, as in that equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.contracts.job import JobSpec
from harness.contracts.view import Throughput


def capability(
    curve: Throughput, spec: JobSpec, global_batch: int, device_type: str | None
) -> float:
    """Return C_i: local mini-batches per second of one virtual worker alone on such a device."""
    local = global_batch / spec.num_logical_workers
    return curve.samples_per_s(1, max(1, round(local)), device_type) / local


def step_s(virtual_workers: Sequence[int], capabilities: Sequence[float]) -> float:
    """Return f_overload (eq. 1b): seconds of a global mini-batch; infinite if a slot has no speed.

    Args:
        virtual_workers: number on each slot.
        capabilities: C_i of each slot, local mini-batches per second.
    """
    pairs = zip(virtual_workers, capabilities, strict=True)
    return max(count / speed if speed > 0 else math.inf for count, speed in pairs)


def spread(
    num_workers: int, capabilities: Sequence[float], most: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return the virtual workers of each slot, at least one, so that the step is as short as
    possible.

    Each further worker goes to the slot that would finish it first; ties go to the first slot. That
    is optimal, because all virtual workers are equal.

    Args:
        num_workers: virtual workers of the job; no fewer than slots.
        capabilities: C_i of each slot.
        most: the most that each slot may get; None: any number.

    Raises:
        ValueError: there are more slots than virtual workers, or they do not fit.
    """
    slots = range(len(capabilities))
    if num_workers < len(slots):
        raise ValueError(
            f"{num_workers} virtual workers on {len(slots)} slots; give the job fewer slots"
        )
    counts = [1] * len(slots)
    seconds = [1.0 / speed if speed > 0 else math.inf for speed in capabilities]
    for _ in range(num_workers - len(slots)):
        open_ = [slot for slot in slots if most is None or counts[slot] < most[slot]]
        if not open_:
            raise ValueError(f"{num_workers} virtual workers do not fit into {most}")
        counts[min(open_, key=lambda slot: (counts[slot] + 1) * seconds[slot])] += 1
    return tuple(counts)
