"""Launcher: starts worker processes on slots and reports their end."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Warmth(StrEnum):
    """How much of a process exists before it is asked for (compare at equal warmth)."""

    COLD = "cold"
    """Nothing: a fresh interpreter."""
    PREIMPORTED = "preimported"
    """The libraries: a fork of a process that has imported them."""
    SPARE = "spare"
    """The process: one of ``Launcher.keep``, or a fork where none is ready."""
    STANDBY = "standby"
    """A spare that has built what the run's jobs train, too."""

    @property
    def is_kept(self) -> bool:
        """Whether there are processes that ``Launcher.keep`` keeps."""
        return self in (Warmth.SPARE, Warmth.STANDBY)


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
    warmth: Warmth = Warmth.COLD
    own_env: Mapping[str, str] = field(default_factory=dict)
    """Variables of this process alone, on top of ``env``; they mean nothing to libraries, and
    so can be set when these have been imported."""
    slot: int | None = None
    """The slot whose worker it is; None: it only serves a job."""


@dataclass(frozen=True, slots=True)
class SpareSpec:
    """A process to keep ready. It serves a ``ProcessSpec`` with the same host, cores and ``env``.

    ``prepare`` is an entry as that of ``ProcessSpec``: what the process does once it has its
    cores and its environment, before it waits to be used. One that is prepared in another way than
    ``keep`` was told last is not wanted any more.
    """

    host: str
    cores: tuple[int, ...]
    env: Mapping[str, str]
    prepare: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spares:
    """How the spares of a launcher stand."""

    wanted: int = 0
    """As ``keep`` was told, but for those that cannot be prepared."""
    ready: int = 0
    """Prepared, and waiting to be used."""
    alive: int = 0
    """Processes: those that are ready, are being prepared, or are about to end."""
    used: int = 0
    """Starts that were given a spare, so far."""
    missed: int = 0
    """Starts that asked for one and were given a fork."""
    failure: str = ""
    """Why some cannot be prepared."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process."""

    handle: int
    returncode: int
    """Exit code, or minus the signal's number."""
    reason: str
    """For a person: exit code or signal, and the last line of its log where it failed."""
    of_machine: bool = False
    """True if the launcher lost the process: such an end says nothing about the program."""
    is_kill_from_outside: bool = False
    """True if SIGKILL ended the process and the launcher was not asked to send it: an operator did,
    or the system, which had no memory left."""


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

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """Keep processes ready for each of these; does not wait.

        They are prepared one after the other, while ``ended`` is called, and never outlive the
        launcher either. One that was used or has died is replaced at the next call, so that
        the caller chooses when; a start that asks for a spare puts off what is still to be
        prepared to that call as well. Spares of an earlier call that are not wanted any more end.
        What could not be prepared is tried again only after a call that did not want it.
        """
        ...

    def spares(self) -> Spares:
        """How they stand, as ``ended`` last saw it."""
        ...

    def spares_bytes(self, num_slots: int, built_bytes: int = 0) -> int:
        """Estimated memory of the spares of so many slots; ``built_bytes``: what each has built."""
        ...

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a process; one that has ended already is not an error."""
        ...

    def ended(self) -> list[Exit]:
        """Processes that ended since the last call, each reported once. Does not wait.

        An end is reported once everything that the process started has ended too, since its slot
        is then given to another worker.
        """
        ...

    def close(self) -> None:
        """Kill what is left and wait for it. Safe to call twice."""
        ...
