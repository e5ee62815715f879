"""Commands that share a folder of runs: every point is run once, and live ones never together."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.run.plan import plan
from harness.sweep.point_claims import Claim, Claims
from harness.sweep.runner import read_words
from tests.patience import WITHIN_S, eventually, outcome
from tests.refused_calls import can_refuse

ROOT = Path(__file__).resolve().parents[2]
QUICK = ["trace=five_jobs", "cluster=dgx8", "scheduler=fifo"]
LIVE = [
    *("trace=edl_one_job", "trace.reader.constants.workload=bert", "workload=tiny"),
    *("trace.reader.constants.batch=4", "trace.reader.constants.work=40", "cluster=cpu2"),
    *("scheduler=fifo", "backend=stop_free", "profile=recorded", "engine=live"),
    "engine.fast_forward=false",
]
"""One job of ten steps."""
REFUSING = """
import errno, sys
from harness.cli import main
from tests.refused_calls import refuse
refuse("flock", errno.ENOLCK)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def started(tmp_path):
    """Starts commands on one folder of runs."""
    processes = []

    def start(*words: str, command: tuple[str, ...] = ("-m", "harness")):
        given = [*words, "tracking=none", "progress=false", f"results_dir={tmp_path / 'runs'}"]
        process = subprocess.Popen(
            [sys.executable, *command, *given],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=(log := (tmp_path / f"{len(processes)}.err").open("w+")),
            text=True,
            start_new_session=True,
        )
        process.err = Path(log.name)
        log.close()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def held(tmp_path):
    """Claims a run for the test's own process."""
    claims = []

    def hold(*words: str) -> str:
        words = [*words, "tracking=none", f"results_dir={tmp_path / 'runs'}"]
        planned = plan(read_words(words), check_workloads=False)
        taken = Claims(tmp_path / "runs", print).take(
            planned.run_id, lambda: None, alone=planned.engine.exclusive
        )
        assert isinstance(taken, Claim)
        claims.append(taken)
        return planned.run_id

    yield hold
    for claim in claims:
        claim.release()


def waits(process) -> bool:
    """Whether a command has said that it waits for this process."""
    line = f"Waiting for process {os.getpid()} on {socket.gethostname()}, which runs "
    return line in process.err.read_text()


def ended_well(process) -> str:
    output, _ = outcome(process)
    assert process.returncode == 0, output + process.err.read_text()
    return output


def runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs").iterdir())


def test_a_run_waits_for_the_command_that_has_it_and_takes_what_is_stored(tmp_path, started, held):
    run_id = held(*QUICK)
    second = started(*QUICK)
    eventually(lambda: waits(second))
    assert f"which runs {run_id} since " in second.err.read_text()
    ended_well(started(*QUICK, "--point"))  # as the process of the claim's holder would
    assert f"Run {run_id} is stored already" in ended_well(second)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_ends_the_waiting_at_once(tmp_path, started, held, signum, code):
    held(*QUICK)
    process = started(*QUICK)
    eventually(lambda: waits(process))
    before = runs(tmp_path)
    process.send_signal(signum)
    outcome(process, 2.0)
    assert process.returncode == code
    assert "Traceback" not in process.err.read_text()
    assert runs(tmp_path) == before


def test_a_sweep_runs_the_others_first_and_takes_a_point_as_stored(tmp_path, started, held):
    run_id = held(*QUICK, "seed=0")
    sweep = started(*QUICK, "seed=0,1", "-m")
    eventually(lambda: waits(sweep) and "done in" in sweep.err.read_text())
    (other,) = {path for path in runs(tmp_path) if not path.startswith(".")}
    assert other != run_id
    ended_well(started(*QUICK, "seed=0", "--point"))
    output = ended_well(sweep)
    assert output.count(" stored ") == output.count(" done ") == 1
    assert "[2/2] 0: stored by another command" in sweep.err.read_text()


def test_ctrl_c_ends_a_sweep_that_waits(tmp_path, started, held):
    held(*QUICK, "seed=0")
    sweep = started(*QUICK, "seed=0,1", "-m")
    eventually(lambda: waits(sweep) and "done in" in sweep.err.read_text())
    sweep.send_signal(signal.SIGINT)
    output, _ = outcome(sweep, 2.0)
    assert sweep.returncode == 130
    assert "1 points are left; the same command continues with them." in output


def test_two_sweeps_at_once_run_every_point_once(tmp_path, started):
    words = [*QUICK, "seed=range(0,3)", "-m"]
    sweeps = [started(*words) for _ in range(2)]
    outputs = [ended_well(sweep) for sweep in sweeps]
    assert sum(output.count(" done ") for output in outputs) == 3
    assert sum(output.count(" stored ") for output in outputs) == 3
    assert len(runs(tmp_path)) == 3
    (label,) = (tmp_path / "sweeps").iterdir()
    names = [path.name for path in (label / "logs").iterdir()]
    owners = {re.search(r"-(\d+)-[^-]+\.log$", name)[1] for name in names}
    assert len(names) == 3
    assert owners <= {str(sweep.pid) for sweep in sweeps}
    points = json.loads((label / "points.json").read_text())["points"]
    assert {point["status"] for point in points} <= {"done", "stored"}


def test_a_sweep_has_logs_of_its_own(command):
    words = ("trace=five_jobs", "cluster=dgx8", "scheduler=fifo", "sweep=mine")
    run_id = plan(read_words([*words, "tracking=none"]), check_workloads=False).run_id
    logs = command.results.parent / "sweeps" / "mine" / "logs"
    logs.mkdir(parents=True)
    theirs, left = (
        logs / f"{run_id}-{pid}-{socket.gethostname()}.log" for pid in (os.getppid(), dead_pid())
    )
    theirs.write_text("another command's output\n")
    left.touch()
    answer = command(*words, "max_wall_s=0.0001", "-m")
    assert answer.code == 1
    assert "    Stopped (max_wall_s is over)" in answer.out
    assert "another command's output" not in answer.out
    own = logs / f"{run_id}-{os.getpid()}-{socket.gethostname()}.log"
    assert set(logs.iterdir()) == {own, theirs}, "what is left of an ended command is removed"
    assert theirs.read_text() == "another command's output\n"


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.long
def test_a_live_run_waits_for_whatever_runs_in_its_folder(tmp_path, started, held):
    held(*QUICK)
    live = started(*LIVE)
    eventually(lambda: waits(live))
    assert "; a live point runs alone on its machine." in live.err.read_text()
    live.send_signal(signal.SIGINT)
    outcome(live, 2.0)
    assert live.returncode == 130


@pytest.mark.long
def test_live_points_of_two_sweeps_and_a_run_never_run_at_once(tmp_path, started):
    words = [*LIVE, "seed=0,1", "-m"]
    commands = [started(*words), started(*words), started(*LIVE, "seed=2")]
    at_once = set()

    def have_ended() -> bool:
        at_once.add(len(list((tmp_path / "runs").glob(".partial-*"))))
        return all(process.poll() is not None for process in commands)

    eventually(have_ended, 10 * WITHIN_S)
    outputs = [ended_well(process) for process in commands]
    assert at_once == {0, 1}
    *sweeps, run = outputs
    assert sum(output.count(" done ") for output in sweeps) == 2
    assert " finished." in run
    assert len(runs(tmp_path)) == 3


@pytest.mark.skipif(not can_refuse(), reason="needs this machine's numbers of system calls")
def test_a_file_system_without_locks_gets_a_warning(tmp_path, started):
    process = started(*QUICK, command=("-c", REFUSING))
    ended_well(process)
    warning = f"warning: {tmp_path / 'runs'}: its file system has no locks (No locks available)"
    assert process.err.read_text().count(warning) == 1
    assert len([name for name in runs(tmp_path) if not name.startswith(".")]) == 1
