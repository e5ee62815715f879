"""Waiting for other processes, with an end to it; who is not ready by then is described.

A wait is counted in its own short rounds and not by the clock: while a whole machine stands still
(a virtual one that is paused, a disk that stalls) the clock may go on, and what is waited for had
no time to happen.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

WITHIN_S = 60.0
_POLL_S = 0.02
_ROUND_S = 0.5
_LOG_LINES = 15
_PRESSURES = ("cpu", "io", "memory")


def eventually(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait for a condition that another process brings about.

    Raises:
        AssertionError: it did not come about within ``within_s`` of waiting.
    """
    for _ in range(round(within_s / _POLL_S)):
        if condition():
            return
        time.sleep(_POLL_S)
    assert condition(), f"it did not happen within {within_s:g} s"


def outcome(
    process: subprocess.Popen[str], within_s: float = WITHIN_S, logs: Path | None = None
) -> tuple[str, str]:
    """Wait for a process to end; what it printed on its two pipes.

    Args:
        process: started with pipes, in text mode.
        within_s: seconds of waiting.
        logs: a folder whose logs tell more, if it does not end.

    Raises:
        AssertionError: it runs after ``within_s`` of waiting. The message says what the process
            and its children are doing, and what the logs say.
    """
    longest_s = 0.0
    for _ in range(round(within_s / _ROUND_S)):
        began = time.monotonic()
        try:
            output, error = process.communicate(timeout=_ROUND_S)
        except subprocess.TimeoutExpired as expired:
            said = expired
            longest_s = max(longest_s, time.monotonic() - began)
            continue
        return output or "", error or ""
    lines = [
        f"{process.args} runs after {within_s:g} s of waiting",
        f"the longest round of {_ROUND_S:g} s took {longest_s:.1f} s",
        f"it printed {said.output!r} and {said.stderr!r}",
        *_described(process.pid),
        *(line for log in sorted(logs.rglob("*.log") if logs else ()) for line in _ending(log)),
        *(line for name in _PRESSURES for line in _ending(Path("/proc/pressure") / name)),
    ]
    raise AssertionError("\n".join(lines))


def _described(pid: int) -> Iterator[str]:
    """What a process and its descendants are doing."""
    try:
        own = psutil.Process(pid)
        family = [own, *own.children(recursive=True)]
    except psutil.Error as error:
        yield f"nothing can be said of it: {error}"
        return
    for member in family:
        try:
            words = " ".join(member.cmdline()[1:6])
            yield f"{member.pid} is {member.status()}, CPU {member.cpu_times()}: {words}"
        except psutil.Error as error:
            yield f"{member.pid}: {error}"
        for name in ("wchan", "stack"):  # where in the kernel it waits, if it does
            yield from _ending(Path(f"/proc/{member.pid}/{name}"))


def _ending(path: Path) -> Iterator[str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        lines = [str(error)]
    yield from (f"  {path.name}: {line}" for line in lines[-_LOG_LINES:])
