"""Programs that crash or fail by the trace, in live runs: real workers are really killed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import yaml

from harness.configuration.instantiate import build
from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import ChangeKind
from harness.contracts.event import EventKind
from harness.engines.live.crashes import FAILED, Breakdowns
from harness.engines.live.job import LiveJob
from harness.engines.live.options import Live
from harness.engines.live.slot_outages import WatchedLauncher
from harness.trace.model.events import TraceEvent, TraceEventKind
from systems.launchers.local import Local
from tests.contracts.test_engine import apply, change, job, setup, until
from tests.replay.worlds import job as spec

BACKENDS = Path(__file__).parents[2] / "configs" / "backend"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("stop_free", "preimported"),
        ("torchrun", "cold"),
        pytest.param("virtual_thread", "preimported", marks=pytest.mark.soak),
        pytest.param("warm_restart", "preimported", marks=pytest.mark.soak),
    ],
)
def test_a_crashed_job_goes_on_and_a_failed_one_is_over(name, start, tmp_path):
    """Whatever a backend does about a lost worker: with all of them gone the grant is lost.

    Steady training up to the events is skipped; before them there is time for a cold start.
    """
    events = (
        TraceEvent(200.0, TraceEventKind.CRASH, job_id="a"),
        TraceEvent(600.0, TraceEventKind.FAIL, job_id="a"),
    )
    options = yaml.safe_load((BACKENDS / f"{name}.yaml").read_text())
    backend = build({**options, "start": start}, name, "backend")
    before = set(psutil.Process().children(recursive=True))
    engine = Live().open(replace(setup(tmp_path, events=events), backend=backend))
    work = job("a", 10**9, slots=2)
    try:
        apply(engine, change(1, ChangeKind.START, work, (), (0, 1)), then=EventKind.CHANGE_DONE)
        lost = until(engine, EventKind.GRANT_LOST)
        assert EventKind.SLOT_DOWN not in {event.kind for event in lost}
        resumed = change(2, ChangeKind.RESUME, work, (), (0, 1))
        assert apply(engine, resumed, then=EventKind.CHANGE_DONE)[-1].samples_per_s > 0
        failed = until(engine, EventKind.JOB_FAILED)[-1]
        assert failed.reason == FAILED
        with pytest.raises(RuntimeError):
            engine.wait(math.inf)
    finally:
        engine.close()
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def launcher():
    """That of a live run whose trace has events; nothing is started."""
    return WatchedLauncher(Local(preimport=[]))


def running(*slots: int) -> LiveJob:
    live = LiveJob(spec("a", work=8000.0), 8)
    start = change(1, ChangeKind.START, live.spec, (), slots)
    live.begin(start, 0.0)
    live.note(Report(ReportKind.DONE, "a", 0.0, change_id=1, step=1, samples=8))
    return live


def told(broken: Breakdowns, live: LiveJob, kind: ReportKind) -> bool:
    report = Report(kind, "a", 0.0, change_id=2, step=2, samples=16)
    live.note(report)
    return broken.settle(live, report)


def test_a_program_without_workers_cannot_break(launcher):
    broken = Breakdowns(launcher)
    live = LiveJob(spec("a"), 8)
    broken.begin(live, is_fatal=True)
    assert not broken
    ending = running(0)
    ending.is_ending = True
    broken.begin(ending, is_fatal=False)
    assert not broken, "its work is done"


@pytest.mark.parametrize("is_fatal", [False, True])
def test_it_is_over_when_the_backend_says_that_all_are_lost(launcher, is_fatal):
    broken, live = Breakdowns(launcher), running(0, 1)
    broken.begin(live, is_fatal=is_fatal)
    live.begin(change(2, ChangeKind.RESCALE, live.spec, (0, 1), (1, 2)), 0.0)
    broken.widen(live)
    assert not told(broken, live, ReportKind.PROGRESS)
    assert "a" in broken
    assert told(broken, live, ReportKind.LOST) is is_fatal
    assert not broken


def test_a_job_that_was_suspended_or_done_before_it_noticed_has_not_failed(launcher):
    broken, live = Breakdowns(launcher), running(0, 1)
    live.begin(change(2, ChangeKind.SUSPEND, live.spec, (0, 1), ()), 0.0)
    broken.begin(live, is_fatal=True)
    assert not told(broken, live, ReportKind.DONE)
    assert not broken
    live = running(0)
    broken.begin(live, is_fatal=True)
    assert not told(broken, live, ReportKind.FINISHED)
    assert not broken


def test_a_slot_that_is_really_down_stays_so_when_a_breakdown_ends(launcher):
    launcher.take_down([0])
    broken, live = Breakdowns(launcher), running(0, 1)
    broken.begin(live, is_fatal=False)
    told(broken, live, ReportKind.LOST)
    assert [launcher._down[slot] for slot in (0, 1)] == [1, 0]
    launcher.bring_up([0])
    assert launcher._down[0] == 0
