"""A launcher that remembers which workers live, and which of them ended with nobody's help."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.contracts.launcher import Exit, Launcher, ProcessSpec, Spares, SpareSpec

_NO_WORKER = ".store"
"""Part of the names of processes that serve a job and do not train."""


@dataclass
class Worker:
    """A process that trains, or will."""

    name: str
    started: float
    slot: int | None = None
    is_signalled: bool = False
    """Whether anybody has signalled it: its end is no surprise then."""


class WatchedLauncher:
    """See the module's text; otherwise as the inner one. Several threads may use it."""

    def __init__(self, inner: Launcher) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.workers: dict[int, Worker] = {}
        """Those that have not ended."""
        self.crashes: list[str] = []
        """Workers that ended with an error and had not been signalled, and how they ended."""
        self._down: Counter[int] = Counter()
        """How often each slot was taken down and not brought up; no worker lives on such a one."""

    def open(self, preimport: Sequence[str] = ()) -> None:
        """As the inner one."""
        self._inner.open(preimport)

    def start(self, spec: ProcessSpec) -> int:
        """As the inner one; a process that trains is remembered, and lives on no slot that is
        down: a backend that was asked for it earlier does not know of that."""
        with self._lock:
            handle = self._inner.start(spec)
        if _NO_WORKER not in spec.name:
            self.workers[handle] = Worker(spec.name, time.monotonic(), spec.slot)
            if spec.slot is not None and self._down[spec.slot]:
                self.signal(handle, signal.SIGKILL)
        return handle

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """As the inner one."""
        if handle in self.workers:
            self.workers[handle].is_signalled = True
        with self._lock:
            self._inner.signal(handle, signum)

    def take_down(self, slots: Collection[int]) -> None:
        """Kill every worker on these slots, and from now on every one that is started there."""
        self._down.update(slots)
        for handle, worker in list(self.workers.items()):
            if worker.slot in slots:
                self.signal(handle, signal.SIGKILL)

    def bring_up(self, slots: Collection[int]) -> None:
        """Workers may live on these slots again, but where they were taken down twice."""
        self._down.subtract(slots)

    def ended(self) -> list[Exit]:
        """As the inner one."""
        with self._lock:
            found = self._inner.ended()
        for one in found:
            worker = self.workers.pop(one.handle, None)
            if worker is not None and one.returncode != 0 and not worker.is_signalled:
                self.crashes.append(f"{worker.name}: {one.reason}")
        return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """As the inner one."""
        self._inner.keep(spares)

    def spares(self) -> Spares:
        """As the inner one."""
        return self._inner.spares()

    def spares_bytes(self, num_slots: int, built_bytes: int = 0) -> int:
        """As the inner one."""
        return self._inner.spares_bytes(num_slots, built_bytes)

    def close(self) -> None:
        """As the inner one."""
        self._inner.close()
