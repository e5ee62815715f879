"""Faults on purpose: who is struck and when, with processes that are only counted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from harness.contracts.training_order import TrainingOrder
from harness.contracts.workload import WorkloadSpec
from harness.faults.busy import BusyProcesses
from harness.faults.live import LiveWithFaults, fault_seed
from harness.faults.plan import FaultPlan
from tests.engines.fault_worlds import Spec, World, make_world, plan
from tests.engines.setups import setup
from tests.replay.worlds import job, profile


@pytest.fixture
def made() -> Any:
    """Makes worlds, and ends them."""
    worlds = []

    def make(plan: FaultPlan, names: list[str]) -> World:
        worlds.append(make_world(plan, names))
        return worlds[-1]

    yield make
    for world in worlds:
        world.backend.close()


def test_faults_are_drawn_from_the_run_and_not_from_its_process() -> None:
    own = replace(setup(profile()), run_id="run-1", run_dir=Path(".partial-run-1-12-host"))
    again = replace(own, run_dir=Path(".partial-run-1-4321-a-host"))
    assert fault_seed(own) == fault_seed(again) == "0 .partial-run-1"
    assert fault_seed(replace(own, run_id="run-2")) != fault_seed(own)


def marks_of(world: World) -> Path:
    """Where workers keep their marks, as the backend learns it with a job's order."""
    order = TrainingOrder("a", WorkloadSpec("w", "x.Y"), 0, 10, Path())
    world.backend.start(Change(1, ChangeKind.START, job("a", 0, 1, 100), (), (0, 1), 8), order)
    world.quiet.reports = [Report(ReportKind.DONE, "a", 0.0, change_id=1)]
    world.backend.poll(0.001)
    assert world.quiet.order is not None
    assert world.quiet.order.marks is not None
    return world.quiet.order.marks


WORKER = """
import sys, time
from harness.contracts.marks import WorkerPhase
from systems.runtime.worker.mark import PhaseMark
OTHERS = WorkerPhase.RECOVER, WorkerPhase.LEAVE, WorkerPhase.SAVE
mark = PhaseMark(sys.argv[1])
mark.leads(sys.argv[2] == "leader")
mark.first(sys.argv[2] == "first")
print(flush=True)
while True:
    for doing in (*map(WorkerPhase, range(WorkerPhase.BETWEEN, WorkerPhase.UPDATE + 1)), *OTHERS):
        mark.now(doing)
        time.sleep(0.1)
"""


@pytest.fixture
def worker() -> Any:
    """Starts processes that keep a mark and do every part of a step in turn."""
    running = []

    def start(path: Path, role: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", WORKER, str(path), role]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert running[-1].stdout is not None
        running[-1].stdout.readline()
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_steady_job_is_struck_until_one_worker_is_left(made: Any) -> None:
    world = made(plan(count=9), ["a.w1", "a.w2", "a.store", "a.w3"])
    world.poll(6)
    struck = {handle for handle, _ in world.processes.signals}
    assert len(world.processes.signals) == len(struck) == 2
    assert struck < {1, 2, 4}, "workers only, and never the last"
    faults = world.backend.faults
    assert {one.phase for one in faults} == {"steady"}
    assert [one.num_workers for one in faults] == [3, 2]
    assert {(one.aimed_at, one.struck_in) for one in faults} == {("any", "start")}


def test_the_count_is_a_limit(made: Any) -> None:
    world = made(plan(count=1, signal="SIGSTOP"), ["a.w1", "a.w2", "a.w3"])
    world.poll()
    ((_, signum),) = world.processes.signals
    assert signum == signal.SIGSTOP
    assert not world.backend.is_over, "the worker that was struck still has to go"


@pytest.mark.parametrize("who", ["any", "joiner"])
def test_during_a_change_of_a_lone_worker_only_those_that_join_are_struck(
    made: Any, who: str
) -> None:
    world = made(plan(count=5, during="change", who=who), ["a.w1"])
    world.poll()
    assert world.processes.signals == [], "nothing is struck while nothing changes"
    world.backend.rescale(rescale((0,), (0, 1)))
    world.launcher.start(Spec("a.w2"))  # type: ignore[arg-type]
    world.poll()
    assert world.processes.signals == [(2, signal.SIGKILL)]
    (fault,) = world.backend.faults
    assert (fault.phase, fault.change_id, fault.worker) == ("joiner", 7, "a.w2")
    world.quiet.reports = [Report(ReportKind.FAILED, "a", 0.0, change_id=7)]
    assert len(world.backend.poll(0.001)) == 1
    world.poll()
    assert len(world.backend.faults) == 1, "the next one waits for the next change"


def rescale(before: tuple[int, ...], after: tuple[int, ...]) -> Change:
    return Change(7, ChangeKind.RESCALE, job("a", 0, 1, 100), before, after, 8)


def test_a_worker_dies_in_the_phase_that_was_aimed_at(made: Any, worker: Any) -> None:
    at = ("forward", "backward", "reduce", "update")
    world = made(plan(count=4, at=at), ["a.w1", "a.w2", "a.w3", "a.w4", "a.w5"])
    marks = marks_of(world)
    workers = {f"a.w{number}": worker(marks / f"a.w{number}") for number in range(1, 6)}
    world.until_struck(4)
    faults = world.backend.faults
    assert sorted(fault.aimed_at for fault in faults) == sorted(at), "each as often as the others"
    for fault in faults:
        assert workers.pop(fault.worker).wait() == -signal.SIGKILL
    assert [fault.struck_in for fault in faults] == [fault.aimed_at for fault in faults]
    (left,) = workers.values()
    assert left.poll() is None
    assert world.processes.signals == [], "the launcher would have taken its time"
    world.processes.ends = [Exit(handle, -9, "killed") for handle in range(1, 6)]
    world.launcher.ended()
    assert len(world.launcher.crashes) == 1, "one ended that nobody had struck"


def test_the_leader_is_known_by_its_mark(made: Any, worker: Any) -> None:
    world = made(plan(count=1, at=("forward",), who="leader"), ["a.w1", "a.w2", "a.w3"])
    marks = marks_of(world)
    workers = [worker(marks / f"a.w{n}", "leader" if n == 2 else "") for n in (1, 2, 3)]
    world.until_struck()
    assert workers[1].wait() == -signal.SIGKILL
    (fault,) = world.backend.faults
    assert (fault.worker, fault.led, fault.was_first) == ("a.w2", 1, 0)


@pytest.mark.parametrize("during", ["steady", "change"])
def test_whoever_saves_is_the_first(made: Any, worker: Any, during: str) -> None:
    world = made(plan(count=1, at=("save",), during=during), ["a.w1", "a.w2", "a.w3"])
    marks = marks_of(world)
    workers = [worker(marks / f"a.w{n}", "first" if n == 3 else "") for n in (1, 2, 3)]
    if during == "change":
        world.poll()
        assert world.backend.faults == [], "it waits for a change"
        world.backend.rescale(rescale((0, 1, 2), (0, 1)))
    world.until_struck()
    assert workers[2].wait() == -signal.SIGKILL
    (fault,) = world.backend.faults
    assert (fault.worker, fault.struck_in, fault.was_first) == ("a.w3", "save", 1)


def test_who_leaves_is_on_a_slot_that_is_given_up(made: Any, worker: Any) -> None:
    world = made(plan(count=1, at=("leave",)), ["a.w1", "a.w2", "a.w3"])
    marks = marks_of(world)
    workers = [worker(marks / f"a.w{number}") for number in (1, 2, 3)]
    world.backend.rescale(rescale((0, 1, 2), (0, 2)))
    world.until_struck()
    assert workers[1].wait() == -signal.SIGKILL
    (fault,) = world.backend.faults
    assert (fault.worker, fault.struck_in) == ("a.w2", "leave")


def test_a_moment_that_does_not_come_is_missed_and_nobody_is_struck(made: Any) -> None:
    world = made(plan(at=("update",), patience_s=0.05), ["a.w1", "a.w2"])
    until = time.monotonic() + 20.0
    while not world.backend.num_missed:
        assert time.monotonic() < until
        world.poll(1)
    assert world.backend.faults == []


@pytest.mark.parametrize(
    ("at", "before", "after"),
    [
        ("switch", (0, 1), (0,)),
        ("switch", (0,), (0, 1)),
        ("copy", (0, 1, 2), (0, 1)),
        ("leave", (0, 1), (0, 1, 2)),
    ],
)
def test_a_change_that_does_not_bring_the_moment_is_let_pass(
    made: Any, at: str, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    world = made(plan(at=(at,), patience_s=0.001), ["a.w1", "a.w2"])
    world.backend.rescale(rescale(before, after))
    world.poll()
    assert (world.backend.faults, world.backend.num_missed) == ([], 0)


def test_a_moment_that_its_change_did_not_bring_is_missed(made: Any) -> None:
    world = made(plan(at=("switch",)), ["a.w1", "a.w2"])
    world.backend.rescale(rescale((0, 1), (0, 1, 2)))
    world.poll()
    world.quiet.reports = [Report(ReportKind.DONE, "a", 0.0, change_id=7)]
    world.poll()
    assert (world.backend.faults, world.backend.num_missed) == ([], 1)


def test_one_dies_first_for_another_to_die_while_the_rest_recover(made: Any, worker: Any) -> None:
    world = made(plan(count=1, at=("recover",)), ["a.w1", "a.w2", "a.w3"])
    marks = marks_of(world)
    workers = {name: worker(marks / name) for name in ("a.w1", "a.w2", "a.w3")}
    world.until_struck(2)
    opener, fault = world.backend.faults
    assert world.processes.signals == [(int(opener.worker[-1]), signal.SIGKILL)]
    assert (opener.aimed_at, fault.aimed_at) == ("any", "recover")
    assert workers[fault.worker].wait() == -signal.SIGKILL
    assert world.backend.faults[1].struck_in == "recover"


def test_others_that_recover_too_soon_are_missed_and_two_are_too_few(made: Any) -> None:
    world = made(plan(count=1, at=("recover",)), ["a.w1", "a.w2", "a.w3"])
    world.poll()
    world.quiet.reports = [Report(ReportKind.SHRUNK, "a", 0.0, slots=(0, 1))]
    world.poll()
    assert [fault.aimed_at for fault in world.backend.faults] == ["any"]
    assert world.backend.num_missed == 1


def test_all_mistakes_of_a_plan_at_once() -> None:
    with pytest.raises(ValueError, match="count is -1") as caught:
        FaultPlan(-1, ("later",), "eldest", "often", "SIGHUP", -1.0, 0.0, 0.0)
    assert len(str(caught.value).splitlines()) == 8
    with pytest.raises(ValueError, match="who is 'leader'"):
        FaultPlan(at=("copy",), who="leader")
    with pytest.raises(ValueError, match="who is 'joiner'"):
        FaultPlan(at=("update",), who="joiner")


def test_no_fault_is_a_plan_too(made: Any) -> None:
    world = made(plan(count=0), ["a.w1", "a.w2"])
    world.poll()
    assert world.processes.signals == []
    assert not world.backend.is_over


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
