"""Change of a job's slots or batch, which engines apply."""

from __future__ import annotations

from enum import StrEnum

from harness.contracts.frozen import frozen
from harness.contracts.job import JobSpec


class ChangeKind(StrEnum):
    """Kinds of change that an engine makes to one job on request."""

    START = "start"
    RESCALE = "rescale"
    MIGRATE = "migrate"
    SUSPEND = "suspend"
    RESUME = "resume"
    STOP = "stop"

    __hash__ = str.__hash__


@frozen
class Change:
    """Request to an engine to change one job. A job has at most one change in flight."""

    change_id: int
    kind: ChangeKind
    job: JobSpec
    previous_slots: tuple[int, ...]
    slots: tuple[int, ...]
    """Slots after the change, in rank order; empty for SUSPEND and STOP."""
    global_batch: int
    virtual_workers: tuple[int, ...] | None = None
    """Virtual workers of each of ``slots``, for backends that run them. Their sum is the job's
    ``num_logical_workers``. None: the change has no plan."""
