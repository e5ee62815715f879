"""Names of files and folders that include the process that made them.

Several commands may work in one folder. Such a name prevents a command from overwriting the file of
another command. It also shows later whether the process is gone.
"""

from __future__ import annotations

import os
import socket


def owned(stem: str) -> str:
    """Return ``STEM-PID-HOST`` for this process."""
    return f"{stem}-{os.getpid()}-{socket.gethostname()}"


def stem_if_left(name: str) -> str | None:
    """Return the stem of a name whose process is gone.

    None: the process is alive, was on another host, or the name contains no process.
    """
    owner, found, rest = name.rpartition(f"-{socket.gethostname()}")
    stem, _, pid = owner.rpartition("-")
    if not found or rest or not stem or not pid.isdigit() or is_alive(int(pid)):
        return None
    return stem


def is_alive(pid: int) -> bool:
    """Return whether this host has a process with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process belongs to another user
        return True
    return True
