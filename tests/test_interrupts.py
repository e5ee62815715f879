"""Commands that are stopped by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import outcome

WAITS = """
import signal
from harness.interrupts import run_command

def main():
    print("ready", flush=True)
    signal.pause()
    return 0

run_command(main)
"""


def test_a_command_stopped_by_ctrl_c_says_so_in_one_line():
    command = subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    os.kill(command.pid, signal.SIGINT)
    _, errors = outcome(command)
    assert (command.returncode, errors) == (130, "Stopped.\n")


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
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[1])])
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
