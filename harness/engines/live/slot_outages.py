"""Launcher that remembers the workers that live, and those that crashed unprovoked."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.contracts.launcher import Launcher
from harness.contracts.process import Exit, HostEvent, ProcessSpec, Spares, SpareSpec

_NO_WORKER = ".store"
"""Part of the names of processes that serve a job and do not train."""


@dataclass
class Worker:
    """Process that trains, or will train."""

    name: str
    started: float
    slot: int | None = None
    is_signalled: bool = False
    """True if the harness has signalled the worker, so that its end is no surprise."""


class WatchedLauncher:
    """Launcher that watches the workers of ``inner`` and can take slots down.

    Several threads may use it.
    """

    def __init__(self, inner: Launcher) -> None:
        self._inner = inner
        # Slowing threads send signals while the engine's thread starts and collects processes.
        self._lock = threading.Lock()
        self.workers: dict[int, Worker] = {}
        """Workers that have not ended, by handle."""
        self.crashes: list[str] = []
        """Workers that ended with an error without having been signalled, and how they ended."""
        self._down: Counter[int] = Counter()
        """Number of times that each slot was taken down and not brought up. No worker lives on a
        slot above 0."""

    def open(self, preimport: Sequence[str] = ()) -> None:
        """Open the inner launcher."""
        self._inner.open(preimport)

    def start(self, spec: ProcessSpec) -> int:
        """Start a process in the inner launcher, and remember it if it trains.

        A worker on a slot that is down is killed at once, because the backend may have requested it
        before the slot went down.
        """
        with self._lock:
            handle = self._inner.start(spec)
        if _NO_WORKER not in spec.name:
            self.workers[handle] = Worker(spec.name, time.monotonic(), spec.slot)
            if spec.slot is not None and self._down[spec.slot]:
                self.signal(handle, signal.SIGKILL)
        return handle

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a process through the inner launcher, and note that a worker was signalled."""
        # Before the signal: the worker's end may be collected right after it, and must not count as
        # a crash.
        if handle in self.workers:
            self.workers[handle].is_signalled = True
        with self._lock:
            self._inner.signal(handle, signum)

    def take_down(self, slots: Collection[int]) -> None:
        """Kill every worker on these slots, and from now on every worker that starts there."""
        self._down.update(slots)
        for handle, worker in list(self.workers.items()):
            if worker.slot in slots:
                self.signal(handle, signal.SIGKILL)

    def bring_up(self, slots: Collection[int]) -> None:
        """Allow workers on these slots again, except where a slot was taken down twice."""
        self._down.subtract(slots)

    def ended(self) -> list[Exit]:
        """Return the processes that ended in the inner launcher, and note workers that crashed."""
        with self._lock:
            found = self._inner.ended()
        for one in found:
            worker = self.workers.pop(one.handle, None)
            if worker is not None and one.returncode != 0 and not worker.is_signalled:
                self.crashes.append(f"{worker.name}: {one.reason}")
        return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """Keep spares in the inner launcher."""
        self._inner.keep(spares)

    def spares(self) -> Spares:
        """Return the inner launcher's counts of spares."""
        return self._inner.spares()

    def spares_bytes(self, num_slots: int, built_bytes: int = 0) -> int:
        """Return the inner launcher's estimate of the memory of spares."""
        return self._inner.spares_bytes(num_slots, built_bytes)

    def host_events(self) -> list[HostEvent]:
        """Return the losses and returns of hosts that the inner launcher knows of."""
        return self._inner.host_events()

    def close(self) -> None:
        """Close the inner launcher."""
        self._inner.close()
