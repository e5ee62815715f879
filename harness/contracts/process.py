"""Processes of a launcher: what is started, what is kept ready, how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


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
    host_lost: bool = False
    """True if the launcher lost the whole host; then all its processes have ended. A lost host is a
    failure of the machine."""


@dataclass(frozen=True, slots=True)
class HostEvent:
    """Loss or return of a whole host, as the launcher knows it."""

    address: str
    """Address of the host, as the cluster has it."""
    is_up: bool
    """True if the host is back; False if it is lost, with all its processes."""
    reason: str = ""
    """Reason for the loss, for the user."""
