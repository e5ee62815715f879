"""Live replays that are struck from outside: one trial of every backend, and what a trial sees."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.bench.trial_loop import only_writer
from harness.contracts.process import ProcessSpec, Warmth
from harness.errors import UserError
from harness.strikes import soak
from harness.strikes.__main__ import main, read_trials
from harness.strikes.plan import BACKENDS, Victim, draw
from harness.strikes.running import Running
from harness.strikes.soak import BOUNDS, Sample, growth
from harness.strikes.trial import judge
from harness.strikes.victims import below, find, output
from systems.launchers.local import Local
from tests.backends.world import options

FIRST = range(len(BACKENDS))
SOON = (1,)
"""Trials for the long tests, of stop_free."""
OPTIONAL = ("torchft",)
"""Backends of optional packages: a trial's number must give the same plan without them."""


def test_every_backend_is_struck_and_a_number_gives_the_same_plan_again():
    assert sorted((*BACKENDS, *OPTIONAL)) == options("backend")
    assert {draw(number, can_fill=True).backend for number in FIRST} == set(BACKENDS)
    plans = [draw(number, can_fill=True) for number in range(300)]
    assert plans == [draw(number, can_fill=True) for number in range(300)]
    assert {strike.victim for plan in plans for strike in plan.strikes} == set(Victim)
    without = [draw(number, can_fill=False) for number in range(300)]
    assert Victim.DISK not in {strike.victim for plan in without for strike in plan.strikes}


@pytest.mark.parametrize("command", [main, soak.main])
def test_a_second_command_into_the_same_folder_is_refused(command, tmp_path):
    out = tmp_path / "record"
    with only_writer(out), pytest.raises(UserError) as refused:
        command(["--out", str(out)])
    assert f"--out {out}: another command writes there" in str(refused.value)
    assert list(out.iterdir()) == []
    with only_writer(out):
        pass


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.long if number in SOON else pytest.mark.soak)
        for number in FIRST
    ],
)
def test_a_struck_run_is_finished_or_says_why_and_is_finished_by_the_same_command(number, tmp_path):
    assert main(["--only", str(number), "--out", str(tmp_path)]) == 0
    (trial,) = read_trials(tmp_path / "trials.jsonl").values()
    assert trial["is_right"], json.dumps(trial, indent=1)
    assert trial["commands"][-1]["exit_code"] == 0


def test_a_folder_without_a_finished_run_is_not_right(tmp_path):
    assert judge(tmp_path, "static") == ["0 finished runs after the command ended with 0"]


@pytest.mark.parametrize("words", [["--trials", "0"], ["--only", "-1"]])
def test_no_trial_is_no_success(words, tmp_path):
    with pytest.raises(SystemExit) as end:
        main([*words, "--out", str(tmp_path)])
    assert end.value.code == 2


def test_a_command_that_does_not_end_is_killed_and_told(tmp_path):
    words = [
        "trace=philly",
        "cluster=slots400",
        "tracking=none",
        f"results_dir={tmp_path / 'runs'}",
    ]
    outcome = Running(words, tmp_path, tmp_path / "command.txt", within_s=3.0).finish(())
    assert outcome.exit_code is None
    assert outcome.left == []
    assert find(psutil.Process(), Victim.WORKER) == []


def test_a_process_that_is_neither_worker_nor_store_is_no_victim():
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        found = [find(psutil.Process(), victim) for victim in Victim if victim is not Victim.DRIVER]
        assert all(process.pid != child.pid for processes in found for process in processes)
    finally:
        child.communicate(b"\n")


def test_a_fork_server_and_its_worker_are_found_by_their_roles(tmp_path):
    others = {each.pid for each in below(psutil.Process())}
    launcher = Local(preimport=["json"])
    launcher.open()
    try:
        log = tmp_path / "worker-0.log"
        handle = launcher.start(
            ProcessSpec(
                "test", "tests.backends.entries:wait", (str(tmp_path / "ready"),), {}, "127.0.0.1",
                (), log,
                warmth=Warmth.PREIMPORTED,
            )
        )  # fmt: skip
        workers: list[psutil.Process] = []
        deadline = time.monotonic() + 20.0
        while not workers:
            assert time.monotonic() < deadline
            assert launcher.ended() == []
            workers = [
                each for each in found_after(others, Victim.WORKER) if Path(output(each)) == log
            ]
        (server,) = found_after(others, Victim.FORK_SERVER)
        assert workers[0].ppid() == server.pid
        launcher.signal(handle, signal.SIGKILL)
    finally:
        launcher.close()
    assert found_after(others, Victim.FORK_SERVER) == []


def found_after(others, role):
    """Processes of one role below this one, without those of other tests' launchers."""
    return [each for each in find(psutil.Process(), role) if each.pid not in others]


def test_what_grows_is_seen_and_what_swings_is_not():
    def sample(index, files):
        return Sample(2.0 * index, 5, 10**8, 9, files, 4, 0, 3)

    swings = [sample(index, 20 + index % 3) for index in range(200)]
    grows = [sample(index, 20 + index) for index in range(200)]
    assert growth(swings)["files"] == pytest.approx(0.0, abs=1.0)
    assert growth(grows)["files"] == pytest.approx(100.0)  # from 74.5 to 174.5
    assert growth(grows)["files"] > BOUNDS["files"]
    assert growth(grows)["rss_bytes"] == 0.0
