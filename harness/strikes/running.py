"""A command that runs while its processes and its disk are struck and observed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil

from harness.machine.parent_death import die_with_parent
from harness.strikes.plan import How, Strike, Victim
from harness.strikes.victims import below, find, kill_all, output

GONE_WITHIN_S: Final = 20.0
"""Longest time from the end of a command to the end of its last process."""
_POLL_S: Final = 0.05


@dataclass(slots=True)
class Outcome:
    """End of a command, and its strikes."""

    exit_code: int | None
    """Exit code; None if the command had to be killed."""
    wall_s: float
    said: str
    """Last line of the output."""
    struck: list[dict[str, Any]] = field(default_factory=list)
    """Strikes that met a process or the disk, in order."""
    left: list[str] = field(default_factory=list)
    """Processes that outlived the command."""


class Running:
    """One command, ``python -m harness``."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        log_path: Path,
        within_s: float,
        watch: Callable[[psutil.Process], None] = lambda driver: None,
    ) -> None:
        """Start the command.

        Args:
            words: arguments of the command.
            folder: folder whose disk is filled.
            log_path: file that takes the command's output.
            within_s: longest time of the command, seconds.
            watch: called many times a second with the command's own process.
        """
        self._folder = folder
        self._log_path = log_path
        self._watch = watch
        self._began = time.monotonic()
        self._end = self._began + within_s
        self._struck: list[dict[str, Any]] = []
        self._seen: dict[int, psutil.Process] = {}
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        self._driver = psutil.Process(self._process.pid)

    def finish(self, strikes: Sequence[Strike]) -> Outcome:
        """Strike the command, with the clock starting at its first worker, and wait for its end.

        No process of the command is alive when this returns or raises.

        Args:
            strikes: in order.
        """
        try:
            if strikes and self._pass(lambda: not find(self._driver, Victim.WORKER)):
                for strike in strikes:
                    until = time.monotonic() + strike.after_s
                    if not self._pass(lambda until=until: time.monotonic() < until):  # type: ignore[misc]
                        break
                    self._strike(strike)
            self._pass(lambda: True)
            code = self._process.poll()
            wall_s = time.monotonic() - self._began
            seen = list(self._seen.values())
            left = [] if code is None else psutil.wait_procs(seen, timeout=GONE_WITHIN_S)[1]
            return Outcome(code, wall_s, self._last_line(), self._struck, _described(left))
        finally:
            kill_all([self._driver, *below(self._driver), *self._seen.values()])
            # Bounded: a stop that comes within ``poll`` can leave its lock taken, and ``wait``
            # without a bound would then never return.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GONE_WITHIN_S)

    def _pass(self, lasts: Callable[[], bool]) -> bool:
        """Wait while a condition holds; return whether the command still runs afterwards."""
        while self._process.poll() is None and time.monotonic() < self._end:
            if not lasts():
                return True
            self._seen.update((process.pid, process) for process in below(self._driver))
            self._watch(self._driver)
            time.sleep(_POLL_S)
        return False

    def _strike(self, strike: Strike) -> None:
        if strike.how is How.FILL:
            self._note(strike, "")
            fill(self._folder, strike.lasting_s)
            return
        victims = find(self._driver, strike.victim)
        if not victims:
            return
        victim = victims[int(strike.choice * len(victims))]
        with contextlib.suppress(psutil.NoSuchProcess):
            name = "" if victim == self._driver else Path(output(victim)).name
            victim.send_signal(signal.SIGKILL if strike.how is How.KILL else signal.SIGSTOP)
            self._note(strike, name)
            if strike.victim is Victim.DRIVER and strike.how is How.STOP:
                time.sleep(strike.lasting_s)
                victim.send_signal(signal.SIGCONT)

    def _note(self, strike: Strike, name: str) -> None:
        self._struck.append(
            {
                "victim": strike.victim.value,
                "how": strike.how.value,
                "name": name,
                "at_s": round(time.monotonic() - self._began, 2),
            }
        )

    def _last_line(self) -> str:
        text = self._log_path.read_text(encoding="utf-8", errors="replace")
        lines = text.strip().splitlines()
        return lines[-1][-400:] if lines else ""


def fill(folder: Path, lasting_s: float) -> None:
    """Fill the disk of a folder for some seconds."""
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb") as file:
        while True:
            file.write(b"\0" * 2**20)
            file.flush()
    try:
        time.sleep(lasting_s)
    finally:
        path.unlink()


def _described(processes: Sequence[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(" ".join(process.cmdline()[-3:]))
    return found
