"""The processes of a running command, by their role."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

import psutil

from harness.strikes.plan import Victim

_FORK_SERVER: Final = ".zygote"
"""End of the name of the module that a fork server runs."""
_STORE: Final = "store"
"""Start of the name of a store's log."""


def find(driver: psutil.Process, victim: Victim) -> list[psutil.Process]:
    """Return the living processes of one role, by process id.

    A forked process has the command line of the fork server that made it. So workers and stores are
    recognised by the log file to which they write. TorchElastic's agents share a log with their
    workers, so they count as workers here.

    Args:
        driver: the command's own process.
        victim: role of a process.
    """
    if victim is Victim.DRIVER:
        return [driver] if driver.is_running() else []
    found = []
    for process in below(driver):
        if _kind(process, driver) is victim:
            found.append(process)
    return sorted(found, key=lambda process: process.pid)


def below(driver: psutil.Process) -> list[psutil.Process]:
    """Return all living descendants of a process."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process for process in driver.children(recursive=True) if _lives(process)]
    return []


def kill_all(processes: list[psutil.Process]) -> None:
    """Kill processes, including stopped ones, and wait for their end."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10.0)


def _kind(process: psutil.Process, driver: psutil.Process) -> Victim | None:
    try:
        log = output(process)
        if log.endswith(".log"):
            return Victim.STORE if Path(log).name.startswith(_STORE) else Victim.WORKER
        # Spares have the fork server's command line and output, but the fork server as parent.
        is_own = process.ppid() == driver.pid
        is_fork_server = any(word.endswith(_FORK_SERVER) for word in process.cmdline())
        return Victim.FORK_SERVER if is_own and is_fork_server else None
    except (psutil.Error, OSError):
        return None


def output(process: psutil.Process) -> str:
    """Return the file to which a process writes.

    Raises:
        OSError: the process has ended.
    """
    return os.readlink(f"/proc/{process.pid}/fd/1")


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
