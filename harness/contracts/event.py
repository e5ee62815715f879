"""Events that engines report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum

from harness.contracts.frozen import frozen


class EventKind(IntEnum):
    """Kinds of event, in the order in which events of one instant are handled.

    Capacity comes first, then ends, then what is new. Ties are ordered by the job's arrival, then
    by job id.

    SLOT_DOWN comes once no job holds the slot any more, in the same instant as the loss of the job
    that held it. JOB_FAILED: the job's program ended in error, for good. JOB_CANCELLED: the job's
    owner gave it up; the event may concern a job that never started.

    GRANT_LOST: all workers of a job died, so its grant is lost; a change in flight has failed too.
    GRANT_SHRUNK: some workers died, or the backend removed them because they were slow. The job
    goes on with the other workers. GRANT_SHRUNK comes after the end of any change in flight, so the
    loss is a part either of the new grant or of the old one.
    """

    SLOT_DOWN = 0
    SLOT_UP = 1
    JOB_FINISHED = 2
    JOB_FAILED = 3
    JOB_CANCELLED = 4
    GRANT_LOST = 5
    CHANGE_FAILED = 6
    CHANGE_RETRY = 7
    CHANGE_DONE = 8
    GRANT_SHRUNK = 9
    CHANGE_ACCEPTED = 10
    PROGRESS = 11
    ARRIVAL = 12
    WAKE = 13

    __hash__ = int.__hash__


@frozen
class Event:
    """Fact at one time of the engine's clock.

    ``samples_done`` is the number of samples credited to the job so far. It comes with every end of
    a job and with GRANT_LOST, CHANGE_DONE, GRANT_SHRUNK and PROGRESS. ``samples_per_s`` is the
    job's present rate (0 while stopped). It comes with CHANGE_DONE, GRANT_SHRUNK and PROGRESS.
    ``phases_s`` comes with CHANGE_DONE and GRANT_SHRUNK, ``stopping_time_s`` with CHANGE_DONE.

    The replay makes ARRIVAL and WAKE; the engine makes all other events.
    """

    time_s: float
    kind: EventKind
    job_id: str = ""
    change_id: int | None = None
    slot: int | None = None
    samples_done: float = 0.0
    samples_per_s: float = 0.0
    stopping_time_s: float | None = None
    samples_lost: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    slots: tuple[int, ...] = ()
    """With GRANT_SHRUNK: slots that the job still holds, in rank order."""
    num_stragglers: int = 0
    """With GRANT_SHRUNK: number of workers that the backend removed because they were slow."""
