"""Workers slowed on purpose: by how much really, and what is written down about it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.process import ProcessSpec
from harness.engines.live.slot_outages import WatchedLauncher
from harness.faults.plan import FaultPlan
from harness.faults.slow_workers import SlowWorkers
from harness.faults.slowing import LONGEST_STOP_S, Slowing
from systems.launchers.local import Local
from tests.engines.fault_worlds import make_world, plan

COUNTS = "import time\nwhile True: time.sleep(0.001)"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", COUNTS]) as started:
        yield started
        started.kill()


def is_stopped(pid: int) -> bool:
    """Whether the kernel has stopped a process, now."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


def stopped_share(pid: int, seconds: float) -> float:
    """Share of some thousand looks, spread over so long, at which a process was stopped."""
    seen, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        seen.append(is_stopped(pid))
        time.sleep(0.0007)
    return sum(seen) / len(seen)


@pytest.mark.parametrize("speed", [0.75, 0.5])
def test_a_slow_process_really_runs_for_the_stated_share(
    process: subprocess.Popen[bytes], speed: float
) -> None:
    slowing = Slowing(process.send_signal, speed, 0.02, 60.0)
    seen = stopped_share(process.pid, 2.0)
    slowing.end()
    assert slowing.stopped_share == pytest.approx(1 - speed, abs=0.03)
    assert seen == pytest.approx(1 - speed, abs=0.08)
    assert not is_stopped(process.pid)


def test_an_emulated_device_falls_behind_by_that_share(tmp_path: Path) -> None:
    """Through the launcher, as the injector does it; speeds from the process's own counts."""
    launcher = WatchedLauncher(Local())
    launcher.open()
    out = tmp_path / "rounds"
    spec = ProcessSpec(
        "a.w1", "tests.engines.counts_rounds:main", (str(out),), {}, "127.0.0.1", (),
        tmp_path / "log",
    )  # fmt: skip
    try:
        handle = launcher.start(spec)
        while not out.exists() or not out.read_text():
            assert not launcher.ended()
            time.sleep(0.01)
        ratios = []
        for _ in range(5):  # in turn, since the machine's load may change
            usual = rounds_per_s(out)
            slowing = Slowing(lambda signum: launcher.signal(handle, signum), 0.5, 0.04, 60.0)
            slow = rounds_per_s(out)
            slowing.end()
            ratios.append(slow / usual)
    finally:
        launcher.close()
    assert median(ratios) == pytest.approx(0.5, abs=0.12)


def rounds_per_s(out: Path, seconds: float = 0.6) -> float:
    """Rounds of 10 ms that a process wrote down, one byte each, in so long."""
    before, started = out.stat().st_size, time.monotonic()
    time.sleep(seconds)
    return (out.stat().st_size - before) / (time.monotonic() - started)


def test_it_ends_by_itself_and_a_stop_is_never_long() -> None:
    sent: list[tuple[float, signal.Signals]] = []
    slowing = Slowing(lambda one: sent.append((time.monotonic(), one)), 0.1, 0.02, 0.3)
    while not slowing.is_over:
        slowing._thread.join(1.0)
    slowing.end()
    assert sent[-1][1] is signal.SIGCONT
    assert [one for _, one in sent[::2]] == [signal.SIGSTOP] * (len(sent) // 2)
    assert 0.3 <= slowing.lasted_s < 5.0
    asked = [sent[k + 1][0] - sent[k][0] for k in range(0, len(sent), 2)]
    assert sorted(asked)[len(asked) // 2] < 2 * LONGEST_STOP_S


def test_several_workers_are_slowed_once_and_detections_are_written_down() -> None:
    slows = plan(count=1, signal="SIGSTOP", speed=0.5, at_once=2)
    world = make_world(slows, ["a.w1", "a.w2", "a.w3", "a.w4", "a.w5"])
    backend = world.backend
    for _ in range(4):
        backend.poll(0.02)
    slow = backend.slowings()
    assert len({one.worker for one in slow}) == len(slow) == 2
    assert not backend.faults
    assert {one.detected_s for one in slow} == {None}
    names = tuple(one.worker for one in slow)
    handles = [int(name[-1]) for name in names]
    at = max(one.at_s for one in slow) + 1.0
    world.quiet.reports = [
        Report(
            ReportKind.SHRUNK, "a", at + 0.4, slots=(0, 1, 2), lost_slots=(3, 4),
            stragglers=names, phases_s={"remove": 0.4, "remove_switch": 0.3},
        )
    ]  # fmt: skip
    for handle in handles:
        del world.launcher.workers[handle]
    backend.poll(0.02)
    found = backend.slowings()
    assert [one.detected_s for one in found] == pytest.approx([at - one.at_s for one in slow])
    assert [one.switched_s for one in found] == pytest.approx([at + 0.3 - one.at_s for one in slow])
    assert all(one.slowing.is_over for one in backend._slow._known)
    assert {handle for handle, _ in world.processes.signals} == set(handles)


def test_a_removal_of_somebody_whom_nobody_slowed_is_a_mistake() -> None:
    workers = SlowWorkers(make_world(FaultPlan(), ["a.w1"]).launcher, FaultPlan())
    phases_s = {"remove": 0.5, "remove_switch": 0.2}
    report: dict[str, Any] = {"slots": (0, 1), "lost_slots": (2,), "phases_s": phases_s}
    workers.note(Report(ReportKind.SHRUNK, "a", 8.0, **report))
    assert workers.records() == [], "a death"
    workers.note(Report(ReportKind.SHRUNK, "a", 9.0, stragglers=("a.w3",), **report))
    (found,) = workers.records()
    assert (found.at_s, found.until_s, found.worker, found.num_workers) == (8.5, 9.0, "a.w3", 3)
    assert (found.speed, found.detected_s) == (1.0, 0.0)
    assert found.switched_s == pytest.approx(0.2)


def test_plans_that_slow_are_checked_all_at_once() -> None:
    with pytest.raises(ValueError, match="signal is not SIGSTOP") as caught:
        FaultPlan(speed=0.5, period_s=1.0, lasting_s=0.0)
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(ValueError, match="at_once is 2"):
        FaultPlan(signal="SIGSTOP", at_once=2)
    with pytest.raises(ValueError, match=r"speed is 1\.0"):
        FaultPlan(speed=1.0)
