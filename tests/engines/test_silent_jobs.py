"""Jobs that give no sign of life, on a clock of the tests' own and with a worker that is stuck."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.event import Event, EventKind
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.job import LiveJob
from harness.engines.live.options import Live
from harness.engines.live.silent_jobs import SilentJobs
from tests.contracts.test_engine import change, job, setup
from tests.replay.worlds import job as spec

LIMIT_S = 10.0
POLL_S = 0.5


def training(job_id: str) -> LiveJob:
    """A job whose first step has ended at 0."""
    live = LiveJob(spec(job_id), 8)
    live.begin(Change(1, ChangeKind.START, live.spec, (), (0,), 8), 0.0)
    hear(live, 0.0, ReportKind.DONE)
    return live


def hear(live: LiveJob, at_s: float, kind: ReportKind = ReportKind.PROGRESS) -> None:
    live.note(Report(kind, live.spec.job_id, at_s, step=1, samples=8))


def looked(
    watch: SilentJobs, jobs: list[LiveJob], start_s: float, for_s: float
) -> dict[str, float]:
    """When each was first found, with a look after every poll."""
    found: dict[str, float] = {}
    for number in range(1, round(for_s / POLL_S) + 1):
        now = start_s + number * POLL_S
        for job_id in watch.look(jobs, now):
            found.setdefault(job_id, now)
    return found


def test_a_job_is_found_in_time_and_one_that_starts_is_left_to_its_backend() -> None:
    starts = LiveJob(spec("starts"), 8)
    starts.begin(Change(1, ChangeKind.START, starts.spec, (), (1,), 8), 0.0)
    found = looked(SilentJobs(LIMIT_S), [training("stuck"), starts], 0.0, 3 * LIMIT_S)
    assert list(found) == ["stuck"]
    assert LIMIT_S < found["stuck"] <= LIMIT_S + POLL_S


def test_what_was_held_up_here_is_no_silence_of_a_job() -> None:
    watch, live = SilentJobs(LIMIT_S), training("a")
    assert looked(watch, [live], 0.0, 2.0) == {}
    held_up_s = 5 * LIMIT_S
    assert watch.look([live], 2.0 + held_up_s) == {}
    found = looked(watch, [live], 2.0 + held_up_s, 2 * LIMIT_S)
    assert found["a"] <= held_up_s + LIMIT_S + POLL_S


def test_a_stuck_job_fails_alone_while_another_is_busy(tmp_path: Path) -> None:
    world = setup(tmp_path)
    stuck = WorkloadSpec("stuck", "tests.backends.tiny_workload.Tiny", {"busy_at_step": 5})
    world = replace(world, workloads={**world.workloads, "stuck": stuck})
    engine = Live(fast_forward=False, stall_timeout_s=2.0).open(world)
    jobs = replace(job("a", 10**9), workload="stuck"), job("b", 10**9)
    try:
        engine.apply(
            [change(slot, ChangeKind.START, each, (), (slot,)) for slot, each in enumerate(jobs)]
        )
        seen: list[Event] = []
        until_s = time.monotonic() + 60.0
        while EventKind.JOB_FAILED not in {event.kind for event in seen}:
            assert time.monotonic() < until_s, "a stuck job was not found"
            seen += engine.wait(engine.now() + 60.0)
        (failed,) = [event for event in seen if event.kind is EventKind.JOB_FAILED]
        assert failed.job_id == "a"
        assert failed.reason.startswith("no sign of life for ")
        assert f"logs: {Path('jobs', 'a')}" in failed.reason
        assert list((tmp_path / "jobs" / "a").glob("*.log"))
        after = engine.wait(engine.now() + 60.0)
        assert [(event.job_id, event.kind) for event in after] == [("b", EventKind.PROGRESS)]
    finally:
        engine.close()
