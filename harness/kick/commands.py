"""Commands of the project run one after another, as a user would type them."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from harness.interrupts import Interrupted
from harness.processes import PointProcess, stop_all
from harness.summary import console, seconds

GRACE_S = 30.0
"""Seconds that a command gets after Ctrl-C or SIGTERM: a sweep gives its own points 20."""


class Commands:
    """Runs ``python -m ...`` and says meanwhile which of how many it is.

    Args:
        folder: of the commands' logs.
        total: how many there will be.
    """

    def __init__(self, folder: Path, total: int) -> None:
        self._folder = folder
        self._total = total
        self._count = 0
        self._out = console(stderr=True)
        self._began_s = time.monotonic()

    def run(self, name: str, module: str, words: Sequence[str]) -> PointProcess:
        """Run one to its end; its exit code and its log are those of what is returned.

        Args:
            name: of its log, and on the line of progress.
            module: what is run with ``python -m``.
            words: its arguments.

        Raises:
            Interrupted: a signal came; the command has been stopped, and so have its workers.
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
        """Where there is no terminal that a line could move on, one for every command."""
        if not self._out.is_terminal:
            self._out.print(self._line(name), markup=False)

    def _line(self, name: str) -> str:
        passed = seconds(time.monotonic() - self._began_s)
        return f"... {self._count} of {self._total}: {name}, {passed} so far"
