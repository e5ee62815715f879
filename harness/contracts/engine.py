"""Engine: what advances time and applies changes.

The replay asks an engine to wait, gets events, lets the scheduler decide, and hands the
engine the changes that follow. The same replay drives the simulated and the live engine;
nothing outside an engine knows which one it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from harness.frozen import frozen
from harness.trace.job import JobSpec


class JobState(StrEnum):
    """States of a job; ``TRANSITIONS`` says which may follow which."""

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
"""Legal transitions. A job that loses its slots goes to SUSPENDED (or back to PENDING if it
never ran); a suspended job may be refused when its deadline has become hopeless."""


class ChangeKind(StrEnum):
    """What an engine can be asked to do to one job."""

    START = "start"
    RESCALE = "rescale"
    MIGRATE = "migrate"
    SUSPEND = "suspend"
    RESUME = "resume"
    STOP = "stop"

    __hash__ = str.__hash__


@frozen
class Change:
    """One request to an engine. At most one is in flight for a job."""

    change_id: int
    kind: ChangeKind
    job: JobSpec
    previous_slots: tuple[int, ...]
    slots: tuple[int, ...]
    """Slots after the change, in rank order; empty for SUSPEND and STOP."""
    global_batch: int
    virtual_workers: tuple[int, ...] | None = None
    """Virtual workers of each of ``slots``, for backends that run them; they sum to the job's
    ``num_logical_workers``. None: no plan."""


class EventKind(IntEnum):
    """Kinds of event. Events of one instant are handled in this order, then by arrival of
    the job, then by job id: capacity first, then what ends, then what is new.

    SLOT_DOWN: told in the instant in which no job holds the slot any more, with the loss of the
    one that did. JOB_FAILED: its program ended in error, for good. JOB_CANCELLED: its owner gave it
    up; it may come for a job that never started.
    GRANT_LOST: all workers of a job died, and its grant with them; a change in flight has
    failed with that. GRANT_SHRUNK: some died, or were removed by the backend since they were
    slow, and the job goes on with the others. It comes after the end of a change, since one
    that was in flight has ended by then: a job whose worker died had either reached its new
    grant, of which it then lost a part, or had not.
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
    """One fact, at one time of the engine's clock.

    ``samples_done`` and ``samples_per_s`` are given with JOB_FINISHED, CHANGE_DONE,
    GRANT_SHRUNK and PROGRESS: samples credited to the job so far, and its present rate (0
    while stopped). ``phases_s`` comes with CHANGE_DONE and GRANT_SHRUNK, ``stopping_time_s``
    with CHANGE_DONE. ARRIVAL and WAKE are made by the replay, all others by the engine.
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
    """With GRANT_SHRUNK: the slots that the job still holds, in rank order."""
    num_stragglers: int = 0
    """With GRANT_SHRUNK: how many of its workers were removed since they were slow."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a backend can do; a scheduler that needs more is refused before the run.

    Only a backend that can rescale and survive ever shrinks a grant.
    """

    rescale: bool = False
    suspend: bool = False
    migrate: bool = False
    change_batch: bool = False
    adapt_batch: bool = False
    """Whether a job can choose its own batch and learning rate as it trains."""
    share_device: bool = False
    """Whether workers of several jobs can run on slots of one device."""
    logical_workers: bool = False
    """Whether a job runs on at most as many slots as it has logical workers, which are virtual."""
    survive: bool = False
    """Whether a job goes on with the others when some of its workers die."""
    drawn_samples: bool = False
    """Whether samples may come out of the random states of the process that fetches them."""


class Engine(Protocol):
    """What advances time and applies changes. Implementations: ``harness/engines/``."""

    @property
    def abilities(self) -> Abilities:
        """What the engine's backend can do."""
        ...

    def now(self) -> float:
        """Seconds since the start of the run, on this engine's clock. Never goes back."""
        ...

    def wait(self, until_s: float) -> list[Event]:
        """Advance to the next event or to ``until_s``, whichever is first.

        Returns all events of that instant in the documented order, or an empty list at
        ``until_s``. With ``until_s`` infinite and nothing under way it raises
        ``RuntimeError``: the replay would wait for ever.
        """
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing is due: no event comes but of a new change."""
        ...

    def apply(self, changes: Sequence[Change]) -> list[Event]:
        """Begin the changes; returns the events that are true at once.

        A change without cost is done at once and its CHANGE_DONE is in the answer; of any
        other, ``wait`` reports acceptance, retry, end or failure, each with its id. Slots a
        change gives up are held until it is done.
        """
        ...

    def close(self) -> None:
        """Release everything; no process of the run is left. Safe to call twice."""
        ...
