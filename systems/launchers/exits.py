"""Descriptions of a process's end, and whether the launcher was asked for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

LOG_TAIL_BYTES = 4096


def describe_exit(code: int, log_path: Path) -> str:
    """Return the exit code or signal and, after a failure, the last line of the log."""
    last = last_line(log_path) if code != 0 else ""
    return f"{describe_code(code)}: {last}" if last else describe_code(code)


def describe_code(code: int) -> str:
    """Return a text for an exit code; a negative one is a signal's number."""
    if code >= 0:
        return f"exited with {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}"


class Kills:
    """Processes to which a launcher was asked to send SIGKILL."""

    def __init__(self) -> None:
        self._handles: set[int] = set()

    def note(self, handle: int, signum: signal.Signals) -> None:
        """Record a signal that is about to be sent."""
        if signum is signal.SIGKILL:
            self._handles.add(handle)

    def is_from_outside(self, handle: int, code: int) -> bool:
        """Return whether a SIGKILL that the launcher did not send ended the process; forget the
        process."""
        is_ours = handle in self._handles
        self._handles.discard(handle)
        return code == -signal.SIGKILL and not is_ours


def last_line(path: Path) -> str:
    """Return the last non-empty line of a file, or an empty text."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
