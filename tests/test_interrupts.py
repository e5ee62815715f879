"""Commands that are stopped by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.patience import eventually, outcome

ROOT = Path(__file__).resolve().parents[1]

WAITS = """
import signal
from harness.machine.interrupts import run_command

def main():
    print("ready", flush=True)
    signal.pause()
    return 0

run_command(main)
"""


SWALLOWED = """
import os, signal
from harness.machine.interrupts import run_command

class Swallows:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

def main():
    print("ready", flush=True)
    Swallows()
    while True:
        signal.pause()

run_command(main)
"""
CAUGHT = """
import signal
from harness.machine.interrupts import run_command

def main():
    print("ready", flush=True)
    while True:
        try:
            signal.pause()
        except BaseException:
            pass

run_command(main)
"""
POOL = """
import os, signal
from harness.machine.interrupts import run_command
from reports.runs.parallel import each

def work(number):
    os.write(1, b"ready\\n")
    while True:
        signal.pause()

run_command(lambda: each(work, range(100)))
"""


def started(script, *before, **how):
    """A Python script, perhaps run by other words, that has said that it is ready."""
    command = subprocess.Popen(
        [*before, sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **how,
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    return command


@pytest.mark.parametrize("script", [WAITS, SWALLOWED, CAUGHT], ids=["waits", "swallowed", "caught"])
def test_a_command_stopped_by_ctrl_c_says_so_in_one_line(script):
    command = started(script)
    if script is not SWALLOWED:  # it sends the signal itself
        os.kill(command.pid, signal.SIGINT)
    _, errors = outcome(command)
    assert (command.returncode, errors) == (130, "Stopped.\n")


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to it alone", "from a terminal"])
def test_work_in_several_processes_ends_with_ctrl_c(send):
    command = started(POOL, start_new_session=True)
    workers = psutil.Process(command.pid).children()
    assert workers
    send(command.pid, signal.SIGINT)
    _, errors = outcome(command)
    assert (command.returncode, errors) == (130, "Stopped.\n")
    eventually(lambda: not any(is_alive(worker) for worker in workers))


def test_work_in_several_processes_dies_with_a_command_that_is_killed():
    command = started(POOL)
    workers = psutil.Process(command.pid).children()
    command.kill()
    outcome(command)
    eventually(lambda: not any(is_alive(worker) for worker in workers))


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


INTERRUPTIBLE = """
import signal, sys
from harness.machine.interrupts import Interrupted, interruptible, run_command

def main():
    try:
        with interruptible():
            print("ready", flush=True)
            while True:
                signal.pause()
    except Interrupted as interrupted:
        return interrupted.exit_code

run_command(main)
"""


SWALLOWED_WITHIN = INTERRUPTIBLE.replace(
    "            while True:",
    "            Swallows()\n            while True:",
).replace(
    "def main():",
    """class Swallows:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass

def main():""",
)


def test_a_signal_that_a_destructor_swallows_is_sent_again():
    command = started(SWALLOWED_WITHIN)
    _, errors = outcome(command)
    assert (command.returncode, errors) == (130, "")


@pytest.mark.parametrize(("script", "code"), [(WAITS, -signal.SIGTERM), (INTERRUPTIBLE, 143)])
def test_a_command_in_the_background_of_a_script_ignores_ctrl_c_and_ends_by_sigterm(script, code):
    command = started(script, "sh", "-c", """trap '' INT; exec "$@" """, "sh")
    for signum in (signal.SIGINT, signal.SIGTERM):
        os.kill(command.pid, signum)
    outcome(command)
    assert command.returncode == code


AT_START = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        is_ready = hasattr(sys.modules.get("harness.machine.starting"), "end_at_once_until_main")
        if is_ready and "harness.machine.interrupts" not in sys.modules:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
"""


def commands():
    """Every module that ``python -m`` runs as a command."""
    rooms = ("harness", "reports", "systems", "workloads")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    ends = "    run_command(main)\n"
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in paths
        if path.read_text(encoding="utf-8").endswith(ends)
    )


@pytest.mark.parametrize("module", commands())
def test_ctrl_c_ends_every_command_in_silence_while_it_imports(tmp_path, module):
    (tmp_path / "sitecustomize.py").write_text(AT_START)
    command = subprocess.Popen(
        [sys.executable, "-m", module.removesuffix(".__main__"), "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert outcome(command) == ("", "")
    assert command.returncode == -signal.SIGINT


SWALLOWS = """
import os, signal, sys, time

class Swallows:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["SWALLOWED_AT"]:
            print("was asked to stop", flush=True)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                print("swallowed it", flush=True)

sys.meta_path.insert(0, Swallows())
"""


@pytest.mark.parametrize(
    ("module", "words"),
    [("yaml", []), ("systems.schedulers.fifo", ["--point"])],
    ids=["while it imports", "while a point prepares"],
)
def test_no_module_swallows_ctrl_c(tmp_path, module, words):
    (tmp_path / "sitecustomize.py").write_text(SWALLOWS)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    words = ["trace=five_jobs", "cluster=dgx8", "scheduler=fifo", "tracking=none", *words]
    command = subprocess.Popen(
        [sys.executable, "-m", "harness", *words, f"results_dir={tmp_path / 'runs'}"],
        env={**os.environ, "PYTHONPATH": paths, "SWALLOWED_AT": module},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, error = outcome(command)
    assert (output, error) == ("was asked to stop\n", "")
    assert command.returncode == -signal.SIGINT
    assert not (tmp_path / "runs").exists()
