"""Processes of a sweep's points, which never outlive the sweep."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from harness.machine.parent_death import die_with_parent

_ROOT = Path(__file__).resolve().parents[2]
_KILLED_WITHIN_S = 10.0
IDLE_TIMEOUT_S = 600.0
"""Longest time that an awaited process may use no CPU; training always uses a core."""
_LOOK_S = 1.0
_POLL_S = 0.05
_HELD = " (process {} waits for the system, perhaps for a disk: it is gone when that answers)"


@dataclass
class PointProcess:
    """Process of one point, ``python -m harness`` with its arguments; the output goes to a log
    file."""

    words: Sequence[str]
    log_path: Path
    module: str = "harness"
    """Module that ``python -m`` runs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to those of this process."""
    descriptors: Sequence[int] = ()
    """Open files that it inherits; locks on them last until it has ended too."""
    started_s: float = field(default_factory=time.monotonic)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process in its own process group. Call this from the main thread."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.started_s = time.monotonic()
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join(paths)},
                process_group=0,
                pass_fds=self.descriptors,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )

    @property
    def pid(self) -> int:
        """Id of the point's own process, after its start."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, minus the signal's number, or None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code. A process that hangs is killed.

        It counts as hanging if neither it nor its descendants have used a core for
        ``IDLE_TIMEOUT_S``.
        """
        assert self._process is not None
        idle_s, used_s = 0.0, 0.0
        while idle_s < IDLE_TIMEOUT_S:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(_LOOK_S)
            before_s, used_s = used_s, _used_s(self._process.pid)
            # The time of a child that has ended drops out of the sum; that also counts as activity.
            idle_s = idle_s + _LOOK_S if used_s == before_s else 0.0
        self.kill()
        return -signal.SIGKILL

    def signal(self, signum: int) -> None:
        """Signal the point's own process, which closes its workers itself."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signum)

    def kill(self, within_s: float = _KILLED_WITHIN_S) -> None:
        """Kill the whole process group and wait for the point's own process.

        Args:
            within_s: longest wait; a process that waits for a disk without answer dies only when
                the disk answers.
        """
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)

    def tail(self, num_lines: int) -> list[str]:
        """Return the last lines of its log."""
        return tail(self.log_path, num_lines)


def _used_s(pid: int) -> float:
    """Return the CPU time of a process and its descendants, in seconds."""
    total_s = 0.0
    with contextlib.suppress(psutil.Error):  # a process has ended meanwhile
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            times = each.cpu_times()
            total_s += times.user + times.system
    return total_s


def tail(path: Path, num_lines: int) -> list[str]:
    """Return the last lines of a text file that are not empty; none if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return list(deque((line.rstrip() for line in file if line.strip()), num_lines))
    except OSError:
        return []


def stop_all(
    processes: Iterable[PointProcess], signum: int, grace_s: float, say: Callable[[str], None]
) -> None:
    """Pass a signal on, give the points time to close their workers, then kill.

    Args:
        processes: the points that may still run.
        signum: SIGINT or SIGTERM.
        grace_s: seconds until SIGKILL. They are counted in polls, not by the clock: a suspended
            machine gives the points no time either.
        say: called for every point that had to be killed.
    """
    running = [process for process in processes if process.returncode is None]
    for process in running:
        process.signal(signum)
    _wait_for(running, grace_s)
    late = [process for process in running if process.returncode is None]
    for process in running:
        process.kill(within_s=0)  # its descendants, even if the point itself has ended
    _wait_for(late, _KILLED_WITHIN_S)
    for process in late:
        held = "" if process.returncode is not None else _HELD.format(process.pid)
        say(
            f"a point did not end within {grace_s:g} s and was killed{held}; its log: "
            f"{process.log_path}"
        )


def _wait_for(processes: Sequence[PointProcess], seconds: float) -> None:
    for _ in range(round(seconds / _POLL_S)):
        if all(process.returncode is not None for process in processes):
            break
        time.sleep(_POLL_S)
