"""A backend under an injector of faults, with everything beside the injector quiet."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import Any

from harness.contracts.backend_reports import Report
from harness.contracts.change import Change
from harness.contracts.process import Exit
from harness.contracts.training_order import TrainingOrder
from harness.engines.live.slot_outages import WatchedLauncher
from harness.faults.injector import FaultyBackend
from harness.faults.plan import FaultPlan


class Processes:
    """Numbers instead of processes; remembers the signals."""

    def __init__(self) -> None:
        self.signals: list[tuple[int, signal.Signals]] = []
        self.ends: list[Exit] = []
        self.number = 0

    def start(self, spec: Any) -> int:
        self.number += 1
        return self.number

    def signal(self, handle: int, signum: signal.Signals) -> None:
        self.signals.append((handle, signum))

    def ended(self) -> list[Exit]:
        found, self.ends = self.ends, []
        return found


class Quiet:
    """A backend that has nothing to report but what it is given."""

    name = "quiet"

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.order: TrainingOrder | None = None

    def poll(self, timeout_s: float) -> list[Report]:
        found, self.reports = self.reports, []
        return found

    def start(self, change: Change, order: TrainingOrder) -> None:
        self.order = order

    def rescale(self, change: Change) -> None:
        pass

    def close(self) -> None:
        pass


class Spec:
    def __init__(self, name: str, slot: int | None = None) -> None:
        self.name = name
        self.slot = slot


@dataclass
class World:
    backend: FaultyBackend
    processes: Processes
    launcher: WatchedLauncher
    quiet: Quiet

    def poll(self, times: int = 4) -> None:
        for _ in range(times):
            self.backend.poll(0.001)

    def until_struck(self, number: int = 1) -> None:
        until = time.monotonic() + 20.0
        while len(self.backend.faults) < number:
            assert time.monotonic() < until
            self.backend.poll(0.001)


def make_world(plan: FaultPlan, names: list[str]) -> World:
    """A world with workers of these names, each on the slot of its place among them."""
    processes, quiet = Processes(), Quiet()
    launcher = WatchedLauncher(processes)  # type: ignore[arg-type]
    backend = FaultyBackend(quiet, launcher, plan, "seed")  # type: ignore[arg-type]
    for slot, name in enumerate(names):
        launcher.start(Spec(name, slot))  # type: ignore[arg-type]
    return World(backend, processes, launcher, quiet)


def plan(**options: Any) -> FaultPlan:
    """A plan whose faults are due at once."""
    return FaultPlan(**{"settle_s": 0.0, "spread_s": 1e-6, **options})
