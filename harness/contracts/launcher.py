"""Launcher: starts worker processes on slots and reports their end."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Warmth(StrEnum):
    """Part of a worker process that exists before it is requested.

    Comparisons of backends need equal warmth.
    """

    COLD = "cold"
    """Nothing: the worker is a new interpreter."""
    PREIMPORTED = "preimported"
    """The libraries: the worker is a fork of a process that has imported them."""
    SPARE = "spare"
    """The process: a spare that ``Launcher.keep`` prepared, or a fork if no spare is ready."""
    STANDBY = "standby"
    """A spare that has also built what the run's jobs train."""

    @property
    def is_kept(self) -> bool:
        """True if ``Launcher.keep`` keeps processes at this warmth."""
        return self in (Warmth.SPARE, Warmth.STANDBY)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """Worker process to start.

    The process calls ``entry``, a ``package.module:function``, with ``argv``. Its environment is
    ``env`` on top of the launcher's own, set before any training library is imported.
    """

    name: str
    entry: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    host: str
    cores: tuple[int, ...]
    log_path: Path
    warmth: Warmth = Warmth.COLD
    own_env: Mapping[str, str] = field(default_factory=dict)
    """Variables of this process alone, on top of ``env``. No library reads them, so they can also
    be set after the libraries have been imported."""
    slot: int | None = None
    """Slot whose worker the process is; None: the process only serves a job."""


@dataclass(frozen=True, slots=True)
class SpareSpec:
    """Process to keep ready. It serves a ``ProcessSpec`` with the same host, cores and ``env``.

    ``prepare`` is an entry like that of ``ProcessSpec``. The spare runs it once it has its cores
    and its environment, before it waits to be used. A spare whose preparation differs from that in
    the latest call of ``keep`` is no longer wanted.
    """

    host: str
    cores: tuple[int, ...]
    env: Mapping[str, str]
    prepare: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spares:
    """Counts of a launcher's spares."""

    wanted: int = 0
    """Spares that ``keep`` was asked for, except those that cannot be prepared."""
    ready: int = 0
    """Spares that are prepared and wait to be used."""
    alive: int = 0
    """Processes of spares: ready, in preparation, or about to end."""
    used: int = 0
    """Starts that got a spare so far."""
    missed: int = 0
    """Starts that asked for a spare and got a fork."""
    failure: str = ""
    """Reason why some spares cannot be prepared; empty if all can."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process."""

    handle: int
    returncode: int
    """Exit code, or minus the number of the signal."""
    reason: str
    """Message for the user: exit code or signal and, after a failure, the last line of the log."""
    of_machine: bool = False
    """True if the launcher lost the process: such an end says nothing about the program."""
    is_kill_from_outside: bool = False
    """True if SIGKILL ended the process without a request to the launcher. Then an operator sent
    it, or the system, which ran out of memory."""


class Launcher(Protocol):
    """Component that starts worker processes, signals them and reports their ends.

    Implementations: ``systems/launchers/``.
    """

    def open(self, preimport: Sequence[str] = ()) -> None:
        """Prepare the launcher; called once.

        ``preimport`` names the modules of the run's workloads. A pre-imported fork has imported
        them too, so that all workloads start equally warm.
        """
        ...

    def start(self, spec: ProcessSpec) -> int:
        """Start a process and return its handle, without waiting until it runs.

        The process never outlives the launcher, even if the launcher is killed outright.
        """
        ...

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """Keep a process ready for each of these specs; return without waiting.

        The launcher prepares the spares one after the other, during calls of ``ended``. Spares
        never outlive the launcher. A spare that was used or has died is replaced at the next call
        of ``keep``, so that the caller chooses the time. A start that asks for a spare also
        postpones all remaining preparation to that call. Spares of an earlier call that are no
        longer wanted end. A failed preparation is repeated only after a call of ``keep`` that did
        not want that spare.
        """
        ...

    def spares(self) -> Spares:
        """Return the counts of the spares, as of the last call of ``ended``."""
        ...

    def spares_bytes(self, num_slots: int, built_bytes: int = 0) -> int:
        """Return the estimated memory of the spares of ``num_slots`` slots. ``built_bytes`` is what
        each spare has built."""
        ...

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a process; a process that has already ended is not an error."""
        ...

    def ended(self) -> list[Exit]:
        """Return the processes that ended since the last call, each of them once. Does not wait.

        The launcher reports an end only after the other processes of the group have ended too,
        because the slot then goes to another worker. That wait may have a bound.
        """
        ...

    def close(self) -> None:
        """Kill the remaining processes and wait for their ends. Safe to call twice."""
        ...
