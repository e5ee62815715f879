"""Launcher: starts worker processes on slots and reports their end."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Protocol

from harness.contracts.process import Exit, HostEvent, ProcessSpec, Spares, SpareSpec


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

    def host_events(self) -> list[HostEvent]:
        """Return the hosts that were lost or came back since the last call, in order.

        Until a lost host comes back, every start there ends at once, with ``host_lost``.
        """
        ...

    def close(self) -> None:
        """Kill the remaining processes and wait for their ends. Safe to call twice."""
        ...
