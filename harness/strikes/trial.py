"""One trial: a live replay that is struck, and what the same command makes of the rest.

A trial is right if every command ends within its bound and leaves no process, and if either the
first command finishes the run, or says why the run failed and the second command finishes the run.
A finished run has all jobs finished, no sample missed or repeated, and for backends that promise
them the bits of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil

from harness.parent_death import die_with_parent
from harness.store import StoreError, iter_runs
from harness.strikes.plan import BACKENDS, How, Strike, TrialPlan, Victim
from harness.strikes.victims import below, find, kill_all

WITHIN_S: Final = 240.0
"""Longest time of a command: twice the longest time-out of a worker (``stop_timeout_s``)."""
_GONE_WITHIN_S: Final = 20.0
"""Longest time from the end of a command to the end of its last process."""
_POLL_S: Final = 0.05
_RUNS: Final = "runs"
_TRACE: Final = """\
name: struck
source: made for trials in which processes are struck from outside
licence: Apache-2.0
reader:
  _target_: harness.trace.columns.ColumnsReader
  path: struck.csv
  columns: {arrival: arrival, slots: slots, max_slots: max_slots, work: work}
  constants: {workload: toy, batch: 24}
transforms: []
"""
_JOBS: Final = """\
arrival,slots,max_slots,work
0,1,3,72000
1,2,4,96000
4,1,2,48000
6,1,4,72000
"""
_WORDS: Final = (
    "workload=toy",
    "cluster=cpu4",
    "profile=recorded",
    "scheduler=uniform",
    "scheduler.use_throughput=false",
    "engine=live",
    "engine.fast_forward=false",
    "tracking=none",
)


@dataclass(slots=True)
class Trial:
    """What happened in one trial."""

    plan: TrialPlan
    struck: list[dict[str, Any]] = field(default_factory=list)
    """Every blow that met a process or the disk, in order."""
    exit_codes: list[int] = field(default_factory=list)
    """Of the commands, in order."""
    walls_s: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Last lines of the commands."""
    problems: list[str] = field(default_factory=list)
    """What should not have happened."""

    def record(self) -> dict[str, Any]:
        """Return the trial as JSON can hold it."""
        return {
            "number": self.plan.number,
            "backend": self.plan.backend,
            "is_right": not self.problems,
            "struck": self.struck,
            "exit_codes": self.exit_codes,
            "walls_s": [round(wall_s, 2) for wall_s in self.walls_s],
            "said": self.said,
            "problems": self.problems,
        }


def run_trial(plan: TrialPlan, folder: Path) -> Trial:
    """Run, strike and judge.

    Args:
        plan: of the trial.
        folder: empty; the run's results go there. Its disk is filled if the plan says so.
    """
    trial = Trial(plan)
    words = _prepare(folder, plan.backend)
    code = _command(trial, words, folder, plan.strikes)
    if code == 0 or code is None:
        if code == 0:
            trial.problems += judge(folder)
        return trial
    if not trial.said[-1] and code > 0:
        trial.problems.append(f"the command ended with {code} and said nothing")
    again = _command(trial, words, folder, ())
    if again == 0:
        trial.problems += judge(folder)
    elif again is not None:
        trial.problems.append(f"the second command ended with {again}: {trial.said[-1]}")
    return trial


def judge(folder: Path) -> list[str]:
    """Return what is wrong with the one finished run of a folder."""
    try:
        runs = list(iter_runs(folder / _RUNS))
    except StoreError as error:
        return [str(error)]
    if len(runs) != 1:
        return [f"{len(runs)} finished runs after the command ended with 0"]
    metrics = runs[0].metrics
    wanted = {"jobs_submitted": 4, "jobs_finished": 4}
    never = {"jobs_failed": 0, "samples_missed": 0, "samples_repeated": 0}
    found = {name: metrics.get(name) for name in wanted} | {
        name: metrics.get(name, 0) for name in never
    }
    return [
        f"{name} is {found[name]}, not {value}"
        for name, value in {**wanted, **never}.items()
        if found[name] != value
    ]


def _prepare(folder: Path, backend: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "struck.yaml").write_text(_TRACE, encoding="utf-8")
    (folder / "struck.csv").write_text(_JOBS, encoding="utf-8")
    return [
        f"trace={folder / 'struck.yaml'}",
        f"results_dir={folder / _RUNS}",
        *_WORDS,
        *BACKENDS[backend],
    ]


def _command(
    trial: Trial, words: Sequence[str], folder: Path, strikes: Sequence[Strike]
) -> int | None:
    """Run the command once, strike, and wait for its end.

    Returns:
        The exit code; None if the command had to be killed.
    """
    began = time.monotonic()
    log_path = folder / f"command-{len(trial.exit_codes)}.txt"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    driver = psutil.Process(process.pid)
    seen: dict[int, psutil.Process] = {}
    try:
        _Striker(trial, driver, folder, seen).strike_all(strikes, began + WITHIN_S)
        code: int | None = _wait(process, driver, seen, began + WITHIN_S)
        trial.walls_s.append(time.monotonic() - began)
        if code is None:
            trial.problems.append(f"the command did not end within {WITHIN_S:g} s")
        left = _left(list(seen.values()))
        if left and code is not None:
            trial.problems.append(f"processes left: {_described(left)}")
    finally:
        kill_all([driver, *below(driver), *seen.values()])
        process.wait()
    trial.exit_codes.append(process.returncode)
    trial.said.append(_last_line(log_path))
    return code


def _wait(
    process: subprocess.Popen[bytes],
    driver: psutil.Process,
    seen: dict[int, psutil.Process],
    end: float,
) -> int | None:
    while process.poll() is None:
        if time.monotonic() > end:
            return None
        seen.update((one.pid, one) for one in below(driver))
        time.sleep(_POLL_S)
    return process.returncode


def _left(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=_GONE_WITHIN_S)
    return alive


def _described(processes: Sequence[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(" ".join(process.cmdline()[-3:]))
    return found


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][-400:] if lines else ""


class _Striker:
    """The blows of one command."""

    def __init__(
        self, trial: Trial, driver: psutil.Process, folder: Path, seen: dict[int, psutil.Process]
    ) -> None:
        self._trial = trial
        self._driver = driver
        self._folder = folder
        self._seen = seen

    def strike_all(self, strikes: Sequence[Strike], end: float) -> None:
        """Strike until the command ends; the first worker starts the clock.

        Args:
            strikes: in order.
            end: when to give up, on ``time.monotonic``.
        """
        while strikes and not find(self._driver, Victim.WORKER):
            if not self._wait(_POLL_S, end):
                return
        for strike in strikes:
            if not self._wait(strike.after_s, end):
                return
            self._strike(strike)

    def _wait(self, seconds: float, end: float) -> bool:
        """Let time pass; return whether the command still runs."""
        until = min(time.monotonic() + seconds, end)
        while time.monotonic() < until:
            self._seen.update((one.pid, one) for one in below(self._driver))
            if not self._lives():
                return False
            time.sleep(_POLL_S)
        return self._lives() and time.monotonic() < end

    def _lives(self) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(self._driver.status() != psutil.STATUS_ZOMBIE)
        return False

    def _strike(self, strike: Strike) -> None:
        if strike.how is How.FILL:
            self._note(strike, "")
            fill(self._folder, strike.lasting_s)
            return
        victims = find(self._driver, strike.victim)
        if not victims:
            return
        victim = victims[int(strike.choice * len(victims))]
        with contextlib.suppress(psutil.NoSuchProcess):
            name = "" if victim == self._driver else Path(_output(victim)).name
            victim.send_signal(signal.SIGKILL if strike.how is How.KILL else signal.SIGSTOP)
            self._note(strike, name)
            if strike.victim is Victim.DRIVER and strike.how is How.STOP:
                time.sleep(strike.lasting_s)
                victim.send_signal(signal.SIGCONT)

    def _note(self, strike: Strike, name: str) -> None:
        blow: Mapping[str, Any] = {
            "victim": strike.victim.value,
            "how": strike.how.value,
            "name": name,
        }
        self._trial.struck.append(dict(blow))


def _output(process: psutil.Process) -> str:
    try:
        return os.readlink(f"/proc/{process.pid}/fd/1")
    except OSError:
        return ""


def fill(folder: Path, lasting_s: float) -> None:
    """Leave no room on a folder's disk for some seconds."""
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb") as file:
        while True:
            file.write(b"\0" * 2**20)
            file.flush()
    try:
        time.sleep(lasting_s)
    finally:
        path.unlink()
