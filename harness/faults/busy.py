"""Processes that keep cores busy during a run: extra load, which must not make workers look
hung."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

END_TIMEOUT_S = 10.0
"""Longest wait for the end of each killed process."""
_ROUNDS = 200_000


class BusyProcesses:
    """Group of ``count`` busy processes, from ``start`` to ``close``; they also end with this
    process.

    Each process is a separate session. Kernels that group tasks by session (autogroups) share a
    core between sessions first. In one session all busy processes together would get no more of a
    core than one worker.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the processes; they are busy within tens of milliseconds."""
        command = [sys.executable, "-I", "-S", str(Path(__file__)), str(os.getpid())]
        self._processes += [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            for _ in range(self.count)
        ]

    def close(self) -> None:
        """End the processes; safe to call twice."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)
        self._processes.clear()


def main(argv: Sequence[str]) -> None:
    """Compute until the process with the id in ``argv`` is no longer the parent."""
    parent = int(argv[0])
    while os.getppid() == parent:
        for number in range(_ROUNDS):
            number * number


if __name__ == "__main__":
    main(sys.argv[1:])
