"""Options of the live engine with fault injection, and that engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from harness.engines.live.engine import LiveEngine
from harness.engines.live.options import Live
from harness.engines.live.slot_outages import WatchedLauncher
from harness.engines.setup import EngineSetup
from harness.faults.busy import BusyProcesses
from harness.faults.injector import FaultyBackend
from harness.faults.plan import FaultPlan
from harness.results.records import RunRecords


@dataclass(frozen=True)
class LiveWithFaults(Live):
    """Options of the live engine, and of the faults that strike its workers.

    Raises:
        ValueError: options out of range, all at once, one line each.
    """

    faults: FaultPlan = field(default_factory=FaultPlan)
    stress_processes: int = 0
    """Busy processes next to the workers, pinned to no core, at the workers' priority."""

    def __post_init__(self) -> None:
        problems = []
        try:
            Live.__post_init__(self)
        except ValueError as error:
            problems.append(str(error))
        if self.stress_processes < 0:
            problems.append(f"stress_processes is {self.stress_processes}; use 0 for none")
        if problems:
            raise ValueError("\n".join(problems))

    def open(self, setup: EngineSetup) -> LiveEngine:
        """Return the engine of one run, with a watched launcher and a fault-injecting backend."""
        return FaultyLiveEngine(self, setup)


def fault_seed(setup: EngineSetup) -> str:
    """Return the seed of a run's faults. It is the same in every run of one configuration.

    Committed records were drawn with this prefix, which was a part of the scratch folder's name.
    The name itself also has the process id, so that faults would differ from run to run.
    """
    return f"{setup.seed} .partial-{setup.run_id}"


class FaultyLiveEngine(LiveEngine):
    """Live engine that records the faults it injected."""

    def __init__(self, options: LiveWithFaults, setup: EngineSetup) -> None:
        self._watched = launcher = WatchedLauncher(setup.launcher)
        self._faulty = FaultyBackend(setup.backend, launcher, options.faults, fault_seed(setup))
        changed: dict[str, Any] = {"launcher": launcher, "backend": self._faulty}
        self._stress = BusyProcesses(options.stress_processes)
        super().__init__(options, replace(setup, **changed))
        try:
            self._stress.start()
        except BaseException:
            self.close()
            raise

    def observe(self, records: RunRecords) -> None:
        """Add the live engine's facts, and the faults on the clock of the steps."""
        super().observe(records)
        assert self._started is not None
        records.faults.extend(
            replace(fault, at_s=fault.at_s - self._started) for fault in self._faulty.faults
        )
        for slowing in self._faulty.slowings():
            at_s, until_s = slowing.at_s - self._started, slowing.until_s - self._started
            records.slowings.append(replace(slowing, at_s=at_s, until_s=until_s))
        records.facts["faults"] = float(len(records.faults))
        records.facts["faults_missed"] = float(self._faulty.num_missed)
        records.facts["workers_crashed"] = float(len(self._watched.crashes))
        records.facts["jobs_lost"] = float(self._faulty.num_lost)
        records.facts["stress_processes"] = float(self._stress.count)

    def _skip(self, until_s: float) -> None:
        """Skip no steps before the last fault; afterwards skip all remaining steps at once."""
        if not self._faulty.is_planned or not any(
            job.num_workers or job.in_flight for job in self._jobs.values()
        ):
            super()._skip(until_s)
        elif self._faulty.is_over:
            super()._skip(math.inf)

    def close(self) -> None:
        """Close the live engine, and end the busy processes."""
        try:
            super().close()
        finally:
            self._stress.close()
