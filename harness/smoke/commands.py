"""Runner of the project's commands, one after another, as a user would type them."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from harness.machine.child_process import PointProcess, stop_all
from harness.machine.interrupts import Interrupted
from harness.machine.terminal import console, seconds

GRACE_S = 30.0
"""Seconds that a command gets after Ctrl-C or SIGTERM. A sweep gives its own points 20, so this
must be longer."""


class Commands:
    """Runner of ``python -m ...`` commands that shows the number of the running one and the total.

    Args:
        folder: folder for the commands' logs.
        total: number of commands.
    """

    def __init__(self, folder: Path, total: int) -> None:
        self._folder = folder
        self._total = total
        self._count = 0
        self._out = console(stderr=True)
        self._began_s = time.monotonic()

    def run(self, name: str, module: str, words: Sequence[str]) -> PointProcess:
        """Run one command to its end and return its process, with exit code and log.

        Args:
            name: name of its log file, also shown in the progress line.
            module: the module that ``python -m`` runs.
            words: its arguments.

        Raises:
            Interrupted: a signal came; the command and its workers have been stopped.
        """
        self._count += 1
        process = PointProcess(words, self._folder / f"{name}.log", module)
        process.start()
        try:
            with self._out.status("") as line:
                self._say(name)
                while process.returncode is None:
                    line.update(self._line(name))
                    time.sleep(0.1)
        except Interrupted as interrupted:
            signum = interrupted.signum if interrupted.signum == signal.SIGINT else signal.SIGTERM
            stop_all([process], signum, GRACE_S, self._out.print)
            raise
        finally:
            if process.returncode is None:
                process.kill()
        return process

    def _say(self, name: str) -> None:
        """Print one line for the command, unless a terminal shows a moving one."""
        if not self._out.is_terminal:
            self._out.print(self._line(name), markup=False)

    def _line(self, name: str) -> str:
        passed = seconds(time.monotonic() - self._began_s)
        return f"... {self._count} of {self._total}: {name}, {passed} so far"
