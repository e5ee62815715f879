"""Which events of the live engine are of one instant, and in which order."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.backend_reports import Report
from harness.contracts.event import Event, EventKind
from harness.contracts.process import Warmth
from harness.engines.live.engine import LiveEngine
from harness.engines.live.job import LiveJob
from harness.engines.live.options import Live
from harness.trace.model.events import TraceEvent, TraceEventKind
from tests.engines.setups import setup
from tests.replay.worlds import job as spec


def made(tmp_path: Path, **more: Any) -> LiveEngine:
    changed = {"run_dir": tmp_path, "launcher": Opens(), "backend": Opens(), **more}
    return LiveEngine(Live(), replace(setup(None), **changed))  # type: ignore[arg-type]


@pytest.fixture
def engine(tmp_path: Path) -> LiveEngine:
    return made(tmp_path)


class Opens:
    """A launcher, or a backend, that is only opened, and has nothing to say."""

    warmth = Warmth.COLD

    def open(self, *_: object) -> None:
        pass

    def poll(self, timeout_s: float) -> list[Report]:
        return []


def test_times_of_the_trace_that_have_passed_together_are_told_one_by_one(
    tmp_path: Path,
) -> None:
    events = (
        TraceEvent(1.0, TraceEventKind.SLOTS_DOWN, (0, 1)),
        TraceEvent(1.1, TraceEventKind.SLOTS_UP, (0,)),
        TraceEvent(1.2, TraceEventKind.SLOTS_DOWN, (0,)),
        TraceEvent(1.2, TraceEventKind.CANCEL, job_id="b"),
        TraceEvent(1.3, TraceEventKind.CANCEL, job_id="a"),
    )
    engine = made(tmp_path, events=events)
    engine._skipped_s = 2.0  # as if the machine had been too busy for us
    told = [[event.kind for event in engine.wait(math.inf)] for _ in range(4)]
    down, cancelled = EventKind.SLOT_DOWN, EventKind.JOB_CANCELLED
    assert told == [[down, down], [EventKind.SLOT_UP], [down, cancelled], [cancelled]]


def instants(engine: LiveEngine, *kinds: EventKind) -> list[list[EventKind]]:
    """Events of one job, all told in one poll, as the replay gets them."""
    found = [engine._one_instant([Event(0.0, kind, "a") for kind in kinds])]
    while engine._later:
        found.append(engine._one_instant([]))
    return [[event.kind for event in events] for events in found]


def test_an_event_that_would_overtake_another_waits(engine: LiveEngine) -> None:
    accepted, done = EventKind.CHANGE_ACCEPTED, EventKind.CHANGE_DONE
    assert instants(engine, accepted, done) == [[accepted], [done]]
    assert instants(engine, done, accepted) == [[done, accepted]]


def test_a_slot_is_told_down_with_the_loss_of_the_job_on_it(engine: LiveEngine) -> None:
    job = LiveJob(spec("a"), 8)
    job.slots = (1, 2)
    engine._jobs["a"] = job
    engine._go_down((0, 1))
    assert told(engine) == [(EventKind.SLOT_DOWN, 0)]
    assert told(engine, EventKind.CHANGE_FAILED) == [(EventKind.CHANGE_FAILED, None)]
    job.slots = (2,)  # as the report says that the next event follows from
    assert told(engine, EventKind.GRANT_SHRUNK) == [
        (EventKind.SLOT_DOWN, 1),
        (EventKind.GRANT_SHRUNK, None),
    ]
    assert told(engine) == []


def test_a_slot_that_fails_again_before_it_is_told_has_not_been_up(engine: LiveEngine) -> None:
    job = LiveJob(spec("a"), 8)
    job.slots = (1,)
    engine._jobs["a"] = job
    engine._go_down((1,))
    engine._untold.append(Event(0.0, EventKind.SLOT_UP, slot=1))
    engine._go_down((1,))
    assert told(engine) == []
    job.slots = ()
    assert told(engine, EventKind.GRANT_LOST) == [
        (EventKind.SLOT_DOWN, 1),
        (EventKind.GRANT_LOST, None),
    ]


def told(engine: LiveEngine, *kinds: EventKind) -> list[tuple[EventKind, int | None]]:
    """The next instant, once these events of job a were reported."""
    events = engine._one_instant([Event(0.0, kind, "a") for kind in kinds])
    assert len({event.time_s for event in events}) <= 1
    return [(event.kind, event.slot) for event in events]


def test_nothing_comes_between_a_shrunk_grant_and_what_is_known_of_it(engine: LiveEngine) -> None:
    progress, shrunk = EventKind.PROGRESS, EventKind.GRANT_SHRUNK
    assert instants(engine, progress, shrunk) == [[shrunk]]
    assert instants(engine, EventKind.CHANGE_RETRY, progress, shrunk, progress) == [
        [EventKind.CHANGE_RETRY, shrunk, progress]
    ]
    assert instants(engine, progress) == [[progress]]


def test_only_an_engine_without_workers_and_due_events_is_idle(tmp_path: Path) -> None:
    events = (TraceEvent(0.0, TraceEventKind.SLOTS_DOWN, (1,)),)
    engine = made(tmp_path, events=events)
    assert not engine.is_idle
    job = LiveJob(spec("a"), 8)
    job.slots, job.num_workers = (1,), 1
    engine._jobs["a"] = job
    engine._due.clear()
    assert not engine.is_idle
    engine._go_down((1,))
    job.num_workers = 0
    assert not engine.is_idle, "the slot is not told down yet"
    job.slots = ()
    assert told(engine, EventKind.GRANT_LOST)[0] == (EventKind.SLOT_DOWN, 1)
    assert engine.is_idle
