"""The suite of the backend seam, third part: workers that stop without an end, and drivers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.observations import read_accusations
from systems.runtime.driver.ending import EXIT_TIMEOUT_S
from tests.backends.world import (
    REDOES_STEPS,
    World,
    configured,
    descendants,
    options,
    skip_if_missing,
    waiting_spares,
    warm_backends,
    warmths,
    workers,
)

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 2.0
"""The least that the driver's own look takes."""
FOUND_S = HANG_S + 3.0
"""A stopped worker is killed by then: after the time-out, two looks, and a busy machine's delay."""
SOON = ("stop_resume", "stop_free")
"""A backend of each kind of job, whose tests are not long."""


def watched_backends():
    """All backends with their options, as parameters; other options than their own are for the
    soak."""
    found = []
    for each in warm_backends():
        others = pytest.mark.long if each.id in options("backend") else pytest.mark.soak
        found.append(
            pytest.param(*each.values, id=each.id, marks=() if each.id in SOON else others)
        )
    return found


@pytest.fixture(params=watched_backends())
def world(request, launcher, tmp_path):
    name, choices = request.param
    backend = configured("backend", name, **choices, hang_timeout_s=HANG_S)
    world = World(backend, launcher, tmp_path)
    yield world
    world.backend.close()
    assert descendants() == []
    assert waiting_spares() == []


def of_job(world, job_id):
    """Workers of one job, by the order of their start."""
    logs = {each: Path(f"/proc/{each.pid}/fd/1").readlink() for each in workers()}
    found = [each for each, log in logs.items() if world.job_dir(job_id) in log.parents]
    return sorted(found, key=lambda process: process.pid)


def until_found(world, stopped, job_id="job"):
    """Poll until the driver has killed a stopped worker, in time."""
    stopped_at = time.monotonic()
    while stopped.is_running() and stopped.status() != "zombie":
        world.poll(0.05)
        assert time.monotonic() < stopped_at + FOUND_S, "a stopped worker was not found in time"
    return read_accusations(world.job_dir(job_id) / "accusations.jsonl", job_id, 0.0)


def until_it_goes_on(world, slots, job_id="job"):
    """As after any death of a worker of this backend: it recovers, or is resumed; the reason."""
    if world.backend.name in REDOES_STEPS:
        before = len(world.reports)
        world.until_step(max(report.step for report in world.reports) + 1, job_id)
        assert not {r.kind for r in world.reports[before:]} & {ReportKind.LOST, ReportKind.FAILED}
        return ""
    kinds = (ReportKind.LOST, ReportKind.SHRUNK)
    found = [r for r in world.reports if r.kind in kinds]
    told = found[0] if found else world.until(lambda r: r.kind in kinds)
    survives = world.backend.abilities.survive and len(slots) > 1
    assert told.kind is (ReportKind.SHRUNK if survives else ReportKind.LOST)
    if told.kind is ReportKind.LOST:
        world.do(ChangeKind.RESUME, slots, job_id=job_id)
    return told.reason


def test_a_worker_that_stops_alone_is_killed_and_its_job_goes_on(world):
    world.until_change(world.start((0,), step_s=0.002))
    world.until_step(20)
    (stopped,) = workers()
    stopped.suspend()
    (kill,) = until_found(world, stopped)
    assert kill.accuser == "job.driver"
    assert kill.silent_s > HANG_S
    reason = until_it_goes_on(world, (0,))
    assert world.backend.name in REDOES_STEPS or "silent for 2." in reason
    world.backend.set_target_step("job", 0)
    world.until_end()


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_one_of_two_is_found_while_another_job_is_busy(world, victim):
    world.until_change(world.start((2,), job_id="other", step_s=0.002))
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(20)
    stopped = of_job(world, "job")[victim]
    stopped.suspend()
    kills = until_found(world, stopped)
    assert len(kills) == 1
    until_it_goes_on(world, (0, 1))
    other = [report for report in world.reports if report.job_id == "other"]
    assert {report.kind for report in other[2:]} == {ReportKind.PROGRESS}
    for job_id in ("job", "other"):
        world.backend.set_target_step(job_id, 0)
        world.until_end(job_id=job_id)


def test_one_that_stops_after_the_last_step_does_not_hold_the_job(world, tmp_path, caplog):
    marker = tmp_path / "evaluating"
    world.start((0, 1), 10, evaluating_marker=str(marker), second_stops_at_step=9)
    while not (marker.exists() and marker.read_text()):
        assert all(report.kind is not ReportKind.LOST for report in world.poll(0.02))
    # Where workers stay until the first has evaluated, the other one is there to be stopped.
    (other,) = [each for each in workers() if each.pid != int(marker.read_text())]
    other.suspend()
    stopped_at = time.monotonic()
    marker.unlink()
    end = world.until_end()
    assert end.step == 10
    assert end.at_s - stopped_at < EXIT_TIMEOUT_S + 3.0
    assert "had not ended" in end.reason
    assert end.reason in caplog.text


def test_a_worker_that_keeps_its_interpreter_busy_is_not_killed(world):
    """It answers nothing for longer than the time-out, but it computes."""
    world.until_change(world.start((0,), busy_at_step=30, busy_s=2 * HANG_S))
    world.until_step(60)
    assert read_accusations(world.job_dir() / "accusations.jsonl", "job", 0.0) == []
    assert {report.kind for report in world.reports[2:]} == {ReportKind.PROGRESS}


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in SOON else pytest.mark.soak)
        for name in options("backend")
    ],
)
def test_a_driver_that_was_stopped_kills_nobody(name, tmp_path):
    skip_if_missing(configured("backend", name))
    start = "preimported" if "preimported" in warmths(name) else "cold"
    words = ["-m", "tests.backends.drive_forever", name, start, str(tmp_path), str(HANG_S)]
    driver = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        while driver.stdout.readline() != "training\n":
            assert driver.poll() is None
        for _ in range(2):
            driver.send_signal(signal.SIGSTOP)
            time.sleep(2 * HANG_S)  # it is this long that the driver is stopped
            driver.send_signal(signal.SIGCONT)
            continued_at = time.monotonic()
            while time.monotonic() < continued_at + FOUND_S:
                assert driver.stdout.readline().startswith("progress ")
    finally:
        driver.kill()
        driver.wait(10)
    job_dir = tmp_path / "job"
    assert not (job_dir / "accusations.jsonl").exists()
    assert os.listdir(job_dir)
