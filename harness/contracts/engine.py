"""Engine: the component that advances time and applies changes.

The replay asks an engine to wait, gets events, lets the scheduler decide, and hands the engine the
resulting changes. The same replay drives the simulated and the live engine. No code outside an
engine knows which engine runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from harness.contracts.frozen import frozen
from harness.contracts.job import JobSpec


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


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of a backend. The run is refused if the scheduler needs an ability that is missing.

    Only a backend with ``rescale`` and ``survive`` ever shrinks a grant.
    """

    rescale: bool = False
    suspend: bool = False
    migrate: bool = False
    change_batch: bool = False
    adapt_batch: bool = False
    """True if a job can choose its own batch and learning rate while it trains."""
    share_device: bool = False
    """True if workers of several jobs can run on slots of one device."""
    logical_workers: bool = False
    """True if a job runs its logical workers as virtual workers, on at most that many slots."""
    survive: bool = False
    """True if a job goes on with its other workers when some of them die."""
    drawn_samples: bool = False
    """True if samples may depend on the random states of the process that fetches them."""


class Engine(Protocol):
    """Component that advances time and applies changes. Implementations: ``harness/engines/``."""

    @property
    def abilities(self) -> Abilities:
        """Abilities of the engine's backend."""
        ...

    def now(self) -> float:
        """Return the seconds since the start of the run on this engine's clock, which never goes
        back."""
        ...

    def wait(self, until_s: float) -> list[Event]:
        """Advance to the next event or to ``until_s``, whichever is first.

        Returns all events of that instant in the order of ``EventKind``, or an empty list at
        ``until_s``.

        Raises:
            RuntimeError: ``until_s`` is infinite and nothing is under way, so the wait would be
                endless.
        """
        ...

    @property
    def is_idle(self) -> bool:
        """True if nothing is under way or due, so that only a new change can lead to an event."""
        ...

    def apply(self, changes: Sequence[Change]) -> list[Event]:
        """Begin the changes and return the events that are true at once.

        A change without cost is done at once, and the result has its CHANGE_DONE. For any other
        change, ``wait`` reports acceptance, retry, end or failure, with the change's id. The job
        holds the slots that a change gives up until the change is done.
        """
        ...

    def close(self) -> None:
        """Release everything and leave no process of the run. Safe to call twice."""
        ...
