"""Faults on purpose: who is struck and when, with processes that are only counted."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

from harness.contracts.engine import Change, ChangeKind
from harness.contracts.training import Report, ReportKind
from harness.faults.busy import BusyProcesses
from harness.faults.injector import FaultyBackend, WatchedLauncher
from harness.faults.live import LiveWithFaults
from harness.faults.plan import FaultPlan
from tests.replay.worlds import job


class Processes:
    """Numbers instead of processes; remembers the signals."""

    def __init__(self) -> None:
        self.signals: list[tuple[int, signal.Signals]] = []
        self.number = 0

    def start(self, spec: Any) -> int:
        self.number += 1
        return self.number

    def signal(self, handle: int, signum: signal.Signals) -> None:
        self.signals.append((handle, signum))


class Quiet:
    """A backend that has nothing to report but what it is given."""

    name = "quiet"

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def poll(self, timeout_s: float) -> list[Report]:
        found, self.reports = self.reports, []
        return found

    def rescale(self, change: Change) -> None:
        pass


class Spec:
    def __init__(self, name: str) -> None:
        self.name = name


def world(plan: FaultPlan, names: list[str]) -> tuple[FaultyBackend, Processes, Any, Quiet]:
    processes, quiet = Processes(), Quiet()
    launcher = WatchedLauncher(processes)  # type: ignore[arg-type]
    for name in names:
        launcher.start(Spec(name))  # type: ignore[arg-type]
    return FaultyBackend(quiet, launcher, plan, "seed"), processes, launcher, quiet  # type: ignore[arg-type]


SOON = {"settle_s": 0.0, "spread_s": 1e-6}


def test_a_steady_job_is_struck_until_one_worker_is_left() -> None:
    plan = FaultPlan(count=9, **SOON)  # type: ignore[arg-type]
    backend, processes, _, _ = world(plan, ["a.w1", "a.w2", "a.store", "a.w3"])
    for _ in range(6):
        backend.poll(0.001)
    struck = {handle for handle, _ in processes.signals}
    assert len(processes.signals) == len(struck) == 2
    assert struck < {1, 2, 4}, "workers only, and never the last"
    assert {one.phase for one in backend.faults} == {"steady"}
    assert [one.num_workers for one in backend.faults] == [3, 2]


def test_the_count_is_a_limit_and_the_victim_can_be_chosen() -> None:
    plan = FaultPlan(count=1, victim="newest", signal="SIGSTOP", **SOON)  # type: ignore[arg-type]
    backend, processes, _, _ = world(plan, ["a.w1", "a.w2", "a.w3"])
    for _ in range(4):
        backend.poll(0.001)
    assert processes.signals == [(3, signal.SIGSTOP)]


def test_during_a_change_of_a_lone_worker_only_those_that_join_are_struck() -> None:
    plan = FaultPlan(count=5, during="change", **SOON)  # type: ignore[arg-type]
    backend, processes, launcher, quiet = world(plan, ["a.w1"])
    backend.poll(0.001)
    assert processes.signals == [], "nothing is struck while nothing changes"
    change = Change(7, ChangeKind.RESCALE, job("a", 0, 1, 100), (0,), (0, 1), 8)
    backend.rescale(change)
    launcher.start(Spec("a.w2"))
    backend.poll(0.001)
    assert processes.signals == [(2, signal.SIGKILL)]
    (fault,) = backend.faults
    assert (fault.phase, fault.change_id, fault.worker) == ("joiner", 7, "a.w2")
    quiet.reports = [Report(ReportKind.FAILED, "a", 0.0, change_id=7)]
    assert len(backend.poll(0.001)) == 1
    backend.poll(0.001)
    assert len(backend.faults) == 1, "the next one waits for the next change"


def test_all_mistakes_of_a_plan_at_once() -> None:
    with pytest.raises(ValueError, match="count is -1") as caught:
        FaultPlan(-1, "often", "SIGHUP", "leader", -1.0, 0.0)
    assert len(str(caught.value).splitlines()) == 6


def test_no_fault_is_a_plan_too() -> None:
    backend, processes, _, _ = world(FaultPlan(count=0, **SOON), ["a.w1", "a.w2"])  # type: ignore[arg-type]
    for _ in range(3):
        backend.poll(0.001)
    assert processes.signals == []


def test_all_mistakes_of_the_engine_at_once() -> None:
    with pytest.raises(ValueError, match="stress_processes is -1; use 0 for none") as caught:
        LiveWithFaults(pace="often", stress_processes=-1)
    assert len(str(caught.value).splitlines()) == 2


def busy_children(of: psutil.Process) -> list[psutil.Process]:
    return [child for child in of.children() if any("busy.py" in c for c in child.cmdline())]


def test_busy_processes_compute_until_they_are_ended() -> None:
    here, stress = psutil.Process(), BusyProcesses(2)
    stress.start()
    try:
        while sum(child.cpu_times().user > 0.02 for child in busy_children(here)) < 2:
            pass  # they have no other sign of life than the time they take
    finally:
        stress.close()
        stress.close()
    assert busy_children(here) == []


def test_busy_processes_end_with_a_parent_that_had_no_time_to_end_them() -> None:
    code = (
        "from harness.faults.busy import BusyProcesses\n"
        "stress = BusyProcesses(1); stress.start()\n"
        "print(stress._processes[0].pid, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as parent:  # type: ignore[call-overload]
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
