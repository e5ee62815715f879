"""Trace events other than submissions: failing or transient slots, cancelled or failing jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class TraceEventKind(StrEnum):
    """Kinds of trace events, in the order in which events of one instant happen."""

    SLOTS_DOWN = "slots_down"
    """Slots disappear without notice, with the workers on them, after a failure or because their
    owner reclaims them."""
    SLOTS_UP = "slots_up"
    """Slots are available again."""
    CANCEL = "cancel"
    """The owner gives up a job, whatever its state."""
    FAIL = "fail"
    """The program of a job ends in error, for good. This happens only if the job has workers or is
    getting some."""
    CRASH = "crash"
    """The program takes all workers of its job down, if the job has some or is getting them. The
    job loses its grant, and resumes from its last checkpoint when it has slots again."""

    @property
    def is_of_job(self) -> bool:
        """True if the event concerns a job, false if it concerns slots."""
        return self not in (TraceEventKind.SLOTS_DOWN, TraceEventKind.SLOTS_UP)


_ORDER = tuple(TraceEventKind)


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of a trace, at a time on the trace's clock.

    Raises:
        ValueError: a field contradicts another.
    """

    time_s: float
    kind: TraceEventKind
    slots: tuple[int, ...] = ()
    """The slots concerned, ascending."""
    job_id: str = ""
    """Id of the job concerned."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", TraceEventKind(self.kind))
        if not (math.isfinite(self.time_s) and self.time_s >= 0):
            raise ValueError(f"time_s is {self.time_s}; it must be finite and >= 0")
        if self.kind.is_of_job != bool(self.job_id):
            of_jobs = ", ".join(kind for kind in TraceEventKind if kind.is_of_job)
            raise ValueError(f"{self.kind} with job {self.job_id!r}; only {of_jobs} have a job")
        if self.kind.is_of_job == bool(self.slots):
            raise ValueError(
                f"{self.kind} with slots {self.slots}; only slots_down and slots_up have slots"
            )
        if any(slot < 0 for slot in self.slots) or list(self.slots) != sorted(set(self.slots)):
            raise ValueError(f"slots are {self.slots}; give each once, from 0, ascending")

    @property
    def order(self) -> tuple[float, int, tuple[int, ...], str]:
        """Sort key of events."""
        return self.time_s, _ORDER.index(self.kind), self.slots, self.job_id


def in_order(events: Iterable[TraceEvent]) -> tuple[TraceEvent, ...]:
    """Return the events in the order that a trace requires."""
    return tuple(sorted(events, key=lambda event: event.order))


def on_devices(
    events: Iterable[TraceEvent], devices: Sequence[Sequence[int]]
) -> tuple[TraceEvent, ...]:
    """Return the events of a one-slot-per-device cluster for devices with several slots each.

    A device goes down, and comes up, with all its slots.

    Args:
        events: events whose slots are indices of devices.
        devices: slots of each device.
    """
    return tuple(
        event
        if event.kind.is_of_job
        else replace(
            event, slots=tuple(sorted(slot for index in event.slots for slot in devices[index]))
        )
        for event in events
    )


def event_problems(
    events: Iterable[TraceEvent], arrivals: Mapping[str, float]
) -> list[tuple[TraceEvent, str]]:
    """Return the events that cannot happen, each with a reason.

    Args:
        events: in their order.
        arrivals: when each job of the trace arrives, seconds.
    """
    problems = []
    down: set[int] = set()
    for event in events:
        if event.kind.is_of_job:
            arrival_s = arrivals.get(event.job_id)
            if arrival_s is None:
                problems.append((event, "no job of the trace has this id"))
            elif event.time_s <= arrival_s:
                problems.append((event, f"the job only arrives at {arrival_s:.10g} s"))
            continue
        is_down = event.kind is TraceEventKind.SLOTS_DOWN
        wrong = [slot for slot in event.slots if (slot in down) == is_down]
        if wrong:
            state = "down" if is_down else "up"
            problems.append((event, f"slot {wrong[0]} is {state} already"))
        (down.update if is_down else down.difference_update)(event.slots)
    return problems
