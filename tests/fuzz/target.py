"""What a target of the fuzzer is, and how one input is given to it.

A target turns bytes into files of a folder, and reads them as the project does. The only errors
that it may end with are the project's own refusals. Nothing may be written outside the folder, no
process may be started, and no module that the input names may be imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

MOST_CPU_S = 5.0
"""Of one input. In seconds of the processor: a busy machine makes nothing hang."""
STRANGER = "stranger_module"
"""Module that inputs name where a file of ours names a class."""

Read = Callable[[bytes, Path], None]


class HangError(BaseException):
    """An input that took more than ``MOST_CPU_S``; no reader takes it for an error of a file."""


@dataclass(frozen=True)
class Target:
    """One reader of the project."""

    name: str
    read: Read
    """Reads what an input stands for, in an empty folder."""
    refusals: tuple[type[Exception], ...]
    """Errors by which the project refuses a file."""
    seeds: Sequence[bytes] = field(default_factory=tuple)
    """Inputs to start from."""


@dataclass
class Outcome:
    """What became of an input."""

    crash: BaseException | None = None
    is_hang: bool = False
    strayed: tuple[str, ...] = ()
    """Writes outside the folder, processes, foreign imports, connections."""
    cpu_s: float = 0.0


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {
    "os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2,
    "os.truncate": 1, "os.chmod": 1, "shutil.rmtree": 1, "shutil.copyfile": 2, "shutil.move": 2,
}  # fmt: skip
"""Events that change files, and how many of their arguments are paths."""
_NEVER = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")


class _Watch:
    """Python's own audit events while an input is read."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.strayed: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITES:
                self._check(event, path)
        elif event in _PATHS:
            # What is named below an open folder (shutil.rmtree) was checked with that folder.
            if event in ("os.rmdir", "os.remove") and arguments[1] != -1:
                return
            for path in arguments[: _PATHS[event]]:
                self._check(event, path)
        elif event in _NEVER:
            self.strayed.append(event)

    def find_spec(self, name: str, *_: object) -> None:
        """Note who looks for a foreign module: importlib's own imports raise no event."""
        if self.folder is not None and name.startswith(STRANGER):
            self.strayed.append(f"import {name}")

    def _check(self, event: str, path: Any) -> None:
        if isinstance(path, int):
            return  # of a file that was opened before
        whole = os.path.realpath(os.fsdecode(path))
        if not whole.startswith(f"{self.folder}{os.sep}") and whole not in (
            self.folder,
            "/dev/null",
        ):
            self.strayed.append(f"{event} {whole}")


_watch: _Watch | None = None


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[_Watch]:
    global _watch
    if _watch is None:  # a hook stays for the life of a process
        _watch = _Watch()
        sys.addaudithook(_watch)
        sys.meta_path.insert(0, cast(Any, _watch))
    _watch.strayed = []
    _watch.folder = os.path.realpath(folder)
    try:
        yield _watch
    finally:
        _watch.folder = None


def give(target: Target, data: bytes, folder: Path) -> Outcome:
    """Give a target one input.

    Args:
        target: what reads it.
        data: the input.
        folder: an empty folder, in which it may write.
    """
    outcome = Outcome()

    def too_long(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, too_long)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        with _watched(folder) as watch:
            target.read(data, folder)
    except target.refusals:
        pass
    except HangError:
        outcome.is_hang = True
    except BaseException as error:
        outcome.crash = error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    outcome.cpu_s = time.process_time() - began
    outcome.strayed = tuple(watch.strayed)
    return outcome
