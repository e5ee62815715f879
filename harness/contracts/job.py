"""The job of a trace: one training program, submitted once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class DeadlineKind(StrEnum):
    """Kind of a job's deadline: none, hard or soft."""

    NONE = "none"
    HARD = "hard"
    SOFT = "soft"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Facts about a job that are known at its submission, and no later ones.

    Times are seconds on the trace's own clock; 0 is the first submission of the loaded trace. Work
    is counted in samples, so that it does not depend on slots or batch.

    Raises:
        ValueError: a field contradicts another; the text names the field, the value and
            the way out. Readers collect these over all rows before they raise.
    """

    job_id: str
    arrival_s: float
    workload: str
    requested_slots: int
    work_samples: float
    global_batch: int
    min_global_batch: int | None = None
    """Least global batch that a scheduler may choose; None: only ``global_batch``."""
    max_global_batch: int | None = None
    min_slots: int = 1
    max_slots: int | None = None
    """Most slots the job can use; None: no limit."""
    logical_workers: int | None = None
    """Logical (virtual) workers of the job; None: ``requested_slots``."""
    deadline_s: float | None = None
    """Absolute deadline, on the same clock as ``arrival_s``, seconds; None: none."""
    deadline_kind: DeadlineKind = DeadlineKind.NONE
    elastic: bool = True
    priority: int = 0
    """Priority; a larger number is more important."""
    owner: str = ""
    duration_s: float | None = None
    """Recorded run time at ``requested_slots``, seconds; None if the trace has none."""
    stated_work_ratio: float = 1.0
    """Work as the job's owner or a predictor states it, divided by the true work. Schedulers see
    ``work_samples`` and ``duration_s`` multiplied by this ratio."""

    def __post_init__(self) -> None:
        if not self.job_id:
            raise ValueError("job_id is empty; give every job a name of its own")
        if not (math.isfinite(self.arrival_s) and self.arrival_s >= 0):
            raise ValueError(f"arrival_s is {self.arrival_s}; it must be finite and >= 0")
        if self.requested_slots < 1:
            raise ValueError(
                f"requested_slots is {self.requested_slots}; a job needs at least 1 slot"
            )
        if not (math.isfinite(self.work_samples) and self.work_samples > 0):
            raise ValueError(f"work_samples is {self.work_samples}; it must be finite and > 0")
        if self.global_batch < 1:
            raise ValueError(f"global_batch is {self.global_batch}; it must be at least 1")
        if self.min_slots < 1 or (self.max_slots is not None and self.max_slots < self.min_slots):
            raise ValueError(
                f"slot range is [{self.min_slots}, {self.max_slots}]; it must start at 1 or more"
                " and not end before it starts"
            )
        low, high = self.batch_range
        if not 1 <= low <= self.global_batch <= high:
            raise ValueError(
                f"global_batch {self.global_batch} is outside its range [{low}, {high}]"
            )
        try:
            object.__setattr__(self, "deadline_kind", DeadlineKind(self.deadline_kind))
        except ValueError:
            known = ", ".join(kind.value for kind in DeadlineKind)
            raise ValueError(f"deadline_kind is {self.deadline_kind!r}; known: {known}") from None
        if (self.deadline_s is None) != (self.deadline_kind is DeadlineKind.NONE):
            raise ValueError(
                f"deadline_s is {self.deadline_s} but deadline_kind is"
                f" {self.deadline_kind.value!r}; give both or neither"
            )
        if self.deadline_s is not None and not self.deadline_s > self.arrival_s:
            raise ValueError(
                f"deadline_s {self.deadline_s} is not after arrival_s {self.arrival_s}"
            )
        if self.duration_s is not None and not self.duration_s > 0:
            raise ValueError(f"duration_s is {self.duration_s}; it must be > 0")
        if not (math.isfinite(self.stated_work_ratio) and self.stated_work_ratio > 0):
            raise ValueError(
                f"stated_work_ratio is {self.stated_work_ratio}; it must be finite and > 0"
            )

    @property
    def batch_range(self) -> tuple[int, int]:
        """Allowed global batches, both ends included."""
        low = self.global_batch if self.min_global_batch is None else self.min_global_batch
        high = self.global_batch if self.max_global_batch is None else self.max_global_batch
        return low, high

    @property
    def num_logical_workers(self) -> int:
        """Number of logical workers, whatever the slots (EasyScale's maxP).

        If the trace does not state it, it is at least ``min_slots``, since each slot runs at least
        one.
        """
        if self.logical_workers is not None:
            return self.logical_workers
        return max(self.requested_slots, self.min_slots)

    @property
    def order(self) -> tuple[float, str]:
        """Sort key of jobs, which breaks all ties: arrival, then job id."""
        return self.arrival_s, self.job_id
