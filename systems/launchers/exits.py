"""How a process ended: told to a person, and by whose hand."""

from __future__ import annotations

import os
import signal
from pathlib import Path

LOG_TAIL_BYTES = 4096


def describe_exit(code: int, log_path: Path) -> str:
    """Exit code or signal, and the last line of the log where the process failed."""
    last = last_line(log_path) if code != 0 else ""
    return f"{describe_code(code)}: {last}" if last else describe_code(code)


def describe_code(code: int) -> str:
    """Exit code, or the signal whose negative number it is."""
    if code >= 0:
        return f"exited with {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}"


class Kills:
    """The processes to which a launcher was asked to send SIGKILL."""

    def __init__(self) -> None:
        self._handles: set[int] = set()

    def note(self, handle: int, signum: signal.Signals) -> None:
        """Note a signal that is about to be sent."""
        if signum is signal.SIGKILL:
            self._handles.add(handle)

    def is_from_outside(self, handle: int, code: int) -> bool:
        """Return whether SIGKILL ended a process, sent by somebody else; forgets the process."""
        is_ours = handle in self._handles
        self._handles.discard(handle)
        return code == -signal.SIGKILL and not is_ours


def last_line(path: Path) -> str:
    """The last line of a file that is not empty, or nothing."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
