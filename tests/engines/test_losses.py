"""What a job of the live engine loses with its workers, and when it is given up for that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.event import EventKind
from harness.contracts.process import HostEvent, Warmth
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.engine import LiveEngine
from harness.engines.live.job import LiveJob
from harness.engines.live.machine_failures import MOST_IN_A_ROW, MachineError, MachineFailures
from harness.engines.live.options import Live
from harness.trace.model.events import TraceEvent, TraceEventKind
from tests.engines.setups import setup
from tests.replay.worlds import job, profile

JOB = job("a")
DOWN = TraceEventKind.SLOTS_DOWN
UP = TraceEventKind.SLOTS_UP


class LosesAll:
    """A backend, and a launcher, whose workers never come to their first step."""

    warmth = Warmth.COLD
    checkpoint_every = 0

    def __init__(self, *, of_machine: bool = False) -> None:
        self._reports: list[Report] = []
        self._of_machine = of_machine

    def open(self, *_: object) -> None:
        pass

    def start(self, change: Change, *_: object) -> None:
        number = change.change_id
        lost = Report(ReportKind.LOST, "a", 0.0, change_id=number, reason="killed")
        self._reports = [replace(lost, of_machine=self._of_machine)]

    def set_target_step(self, *_: object) -> None:
        pass

    def host_events(self) -> list[HostEvent]:
        return []

    def poll(self, timeout_s: float) -> list[Report]:
        found, self._reports = self._reports, []
        return found


def opened(tmp_path: Path, *events: TraceEvent, of_machine: bool = False) -> LiveEngine:
    """An engine whose backend loses every start."""
    fake = LosesAll(of_machine=of_machine)
    changed: dict[str, Any] = {
        "run_dir": tmp_path,
        "launcher": fake,
        "backend": fake,
        "workloads": {"recorded": WorkloadSpec("recorded", "none", {})},
    }
    world = replace(setup(profile(), JOB), events=events, **changed)
    return LiveEngine(Live(), world)


def ends(tmp_path: Path, count: int, *events: TraceEvent) -> list[EventKind]:
    """What comes of so many starts, one at each second."""
    engine = opened(tmp_path, *events)
    found = []
    for number in range(count):
        assert engine.wait(float(number)) == []
        # Not RESUME: it has never run.
        engine.apply([Change(number, ChangeKind.START, JOB, (), (0,), 8)])
        if events:
            engine._skipped_s = number + 0.5
        told = engine.wait(math.inf)
        if events:
            assert told.pop(0).kind is EventKind.SLOT_DOWN
        found += [event.kind for event in told]
        engine._skipped_s = number + 0.9
        if events:
            assert [event.kind for event in engine.wait(math.inf)] == [EventKind.SLOT_UP]
    return found


def test_workers_that_die_by_themselves_are_started_three_times(tmp_path: Path) -> None:
    lost = EventKind.GRANT_LOST
    assert ends(tmp_path, 3) == [lost, lost, EventKind.JOB_FAILED]


def test_failures_of_the_machine_end_no_job_but_in_the_end_the_run(tmp_path: Path) -> None:
    engine = opened(tmp_path, of_machine=True)
    for number in range(MOST_IN_A_ROW):
        assert engine.wait(float(number)) == []
        engine.apply([Change(number, ChangeKind.START, JOB, (), (0,), 8)])
        if number == MOST_IN_A_ROW - 1:
            with pytest.raises(MachineError, match=r"job a, 5 times in a row: killed\)"):
                engine.wait(math.inf)
            return
        assert [event.kind for event in engine.wait(math.inf)] == [EventKind.GRANT_LOST]
        engine._skipped_s = number + 0.9


def test_a_job_that_gets_further_each_time_is_never_the_end_of_the_run() -> None:
    failures, live = MachineFailures(), LiveJob(JOB, 8)
    for number in range(3 * MOST_IN_A_ROW):
        failures.note(live, float(number), "killed")
    for _ in range(MOST_IN_A_ROW - 2):
        failures.note(live, 1.0, "killed")
    with pytest.raises(MachineError):
        failures.note(live, 1.0, "killed")


def test_what_the_slots_took_along_is_not_held_against_the_job(tmp_path: Path) -> None:
    outages = [(TraceEvent(n + 0.4, DOWN, (0,)), TraceEvent(n + 0.8, UP, (0,))) for n in range(5)]
    events = [event for outage in outages for event in outage]
    assert ends(tmp_path, 5, *events) == [EventKind.GRANT_LOST] * 5


def test_nor_is_what_the_trace_lets_crash(tmp_path: Path) -> None:
    crashes = [TraceEvent(n + 0.4, TraceEventKind.CRASH, job_id="a") for n in range(5)]
    engine = opened(tmp_path, *crashes)
    for number in range(5):
        assert engine.wait(float(number)) == []
        engine.apply([Change(number, ChangeKind.START, JOB, (), (0,), 8)])
        engine._skipped_s = number + 0.5
        assert [event.kind for event in engine.wait(math.inf)] == [EventKind.GRANT_LOST]


def trained(checkpoint_every: int) -> Iterator[LiveJob]:
    """A job that trains, has 100 steps credited and is lost; then the same once more, with a
    change in between that saves."""
    live = LiveJob(job("a", work=8000.0), 8, checkpoint_every)
    live.begin(Change(1, ChangeKind.START, live.spec, (), (0,), 8), 0.0)
    live.note(report(ReportKind.DONE, 1))
    live.note(report(ReportKind.PROGRESS, 6))
    live.credit(800.0)
    live.note(report(ReportKind.PROGRESS, 9))
    live.note(report(ReportKind.LOST, 0))
    yield live
    live.begin(Change(2, ChangeKind.RESUME, live.spec, (), (0,), 8), 0.0)
    live.note(report(ReportKind.DONE, 1))
    live.note(report(ReportKind.PROGRESS, 6))
    live.credit(800.0)
    live.begin(Change(3, ChangeKind.MIGRATE, live.spec, (0,), (1,), 8), 0.0)
    live.note(report(ReportKind.DONE, 8))
    live.note(report(ReportKind.PROGRESS, 13))
    live.credit(800.0)
    live.note(report(ReportKind.LOST, 7))
    yield live


def report(kind: ReportKind, step: int) -> Report:
    return Report(kind, "a", 0.0, change_id=1, step=step, samples=8 * step)


def test_credited_steps_are_lost_that_no_checkpoint_had_saved() -> None:
    assert [live.samples_done for live in trained(0)] == [0, 8 * 107]
    assert [live.steps_credited for live in trained(0)] == [0, 100]


def test_where_checkpoints_are_written_all_along_credited_steps_are_kept() -> None:
    assert [live.samples_done for live in trained(10)] == [8 * 100, 8 * 307]
