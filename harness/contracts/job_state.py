"""States of a job, and the legal transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    """States of a job; ``TRANSITIONS`` lists the legal successors of each."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    RESCALING = "rescaling"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    FINISHED = "finished"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # the enumeration's own is a Python call, made millions of times


_ENDS = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})
TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.PENDING: frozenset({JobState.STARTING, JobState.REFUSED, JobState.CANCELLED}),
    JobState.STARTING: _ENDS | {JobState.RUNNING, JobState.PENDING, JobState.SUSPENDED},
    JobState.RUNNING: _ENDS | {JobState.RESCALING, JobState.SUSPENDING, JobState.SUSPENDED},
    JobState.RESCALING: _ENDS | {JobState.RUNNING, JobState.SUSPENDED},
    JobState.SUSPENDING: _ENDS | {JobState.SUSPENDED, JobState.RUNNING},
    JobState.SUSPENDED: frozenset(
        {JobState.STARTING, JobState.FAILED, JobState.REFUSED, JobState.CANCELLED}
    ),
    JobState.FINISHED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.REFUSED: frozenset(),
    JobState.CANCELLED: frozenset(),
}
"""Legal transitions. A job that loses its slots goes to SUSPENDED, or back to PENDING if it never
ran. A suspended job may be refused when it can no longer meet its deadline."""
