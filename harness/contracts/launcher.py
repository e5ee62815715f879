"""Launcher: starts worker processes on slots and reports their end."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A worker process to start.

    ``entry`` is ``package.module:function``; it is called with ``argv`` and its environment
    is ``env`` on top of the launcher's own, set before any training library is imported.
    """

    name: str
    entry: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    host: str
    cores: tuple[int, ...]
    log_path: Path
    preimported: bool = False
    """Fork from a process that has already imported the libraries (same warmth for all)."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process."""

    handle: int
    returncode: int
    """Exit code, or minus the signal's number."""
    reason: str
    """For a person: exit code or signal, and the last line of its log where it failed."""


class Launcher(Protocol):
    """Starts, signals and buries processes. Implementations: ``systems/launchers/``."""

    def open(self, preimport: Sequence[str] = ()) -> None:
        """Make ready; called once.

        ``preimport`` names the modules of the run's workloads: a process that is forked
        pre-imported has imported them too, so that no workload starts colder than another.
        """
        ...

    def start(self, spec: ProcessSpec) -> int:
        """Start a process; returns a handle. Does not wait until it runs.

        A process never outlives the launcher, even if that is killed outright.
        """
        ...

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a process; one that has ended already is not an error."""
        ...

    def ended(self) -> list[Exit]:
        """Processes that ended since the last call, each reported once. Does not wait."""
        ...

    def close(self) -> None:
        """Kill what is left and wait for it. Safe to call twice."""
        ...
