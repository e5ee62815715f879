"""Commands that are stopped by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

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
    _, errors = command.communicate(timeout=60)
    assert (command.returncode, errors) == (130, "Stopped.\n")
