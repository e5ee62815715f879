"""Processes that keep cores busy beside a run: the load under which nobody must be accused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

END_TIMEOUT_S = 10.0
"""Longest wait for the end of each, which was killed."""
_ROUNDS = 200_000


class BusyProcesses:
    """So many of them, from ``start`` to ``close``. They end by themselves without this one.

    Each is a session of its own: kernels that group tasks by session (autogroups) share a core
    between sessions first, so that all of one session get no more than one worker does.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start them; they are busy within tens of milliseconds."""
        command = [sys.executable, "-I", "-S", str(Path(__file__)), str(os.getpid())]
        self._processes += [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            for _ in range(self.count)
        ]

    def close(self) -> None:
        """End them; safe to call twice."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)
        self._processes.clear()


def main(argv: Sequence[str]) -> None:
    """``PARENT``: compute until the process of this id is no longer the parent."""
    parent = int(argv[0])
    while os.getppid() == parent:
        for number in range(_ROUNDS):
            number * number


if __name__ == "__main__":
    main(sys.argv[1:])
