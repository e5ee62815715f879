"""Options of the simulated engine with jobs and changes that differ from trial to trial."""

from __future__ import annotations

from dataclasses import dataclass

from harness.engines.setup import EngineSetup
from harness.engines.simulated.engine import SimulatedEngine
from harness.engines.simulated.options import Simulated
from harness.engines.simulated.variation import Variation


@dataclass(frozen=True)
class SimulatedVaried(Simulated):
    """Simulated engine with speeds and costs drawn around the profile's (``Variation``).

    Each repetition is a separate trial. A schedule may depend on ties: a job ends just before or
    just after a scheduler decides. One simulation at the profile's medians takes one side of each
    tie. Several repetitions take either side about as often as live trials do, so compare their
    mean with the mean of live trials.

    Schedulers plan with the profile's speeds, not with the drawn ones.

    Raises:
        ValueError: an option has no such value.
    """

    name: str = "simulated_varied"

    def problems(self, setup: EngineSetup) -> list[str]:
        """Return the problems of the simulated engine, or of a profile that states no spread at
        all."""
        found = super().problems(setup)
        if not found and setup.jobs and not any(self._varies(setup).values()):
            found.append(
                f"profile {setup.profile.name} does not state by how much its trials differ (a"
                " number of trials of at least 2, and a spread of the speeds), so that nothing"
                " would vary; use engine=simulated, or a measured profile"
                " (python -m harness.profile measure)"
            )
        return found

    def warnings(self, setup: EngineSetup) -> list[str]:
        """Return the workloads whose speeds do not vary, because the profile states no spread for
        them."""
        fixed = sorted(workload for workload, varies in self._varies(setup).items() if not varies)
        if not fixed:
            return []
        return [
            f"profile {setup.profile.name} states no spread for {', '.join(fixed)}: their speeds"
            " are the same in every repetition"
        ]

    def open(self, setup: EngineSetup) -> SimulatedEngine:
        """Return an engine at time 0, with the draws of the run's seed and repetition."""
        return self._engine(setup, Variation(setup.profile, setup.seed, setup.repetition))

    def _varies(self, setup: EngineSetup) -> dict[str, bool]:
        """Return, for each workload of the jobs, whether its speeds vary."""
        found: dict[str, bool] = {}
        for job in setup.jobs:
            slots = range(1, (job.max_slots or setup.cluster.num_slots) + 1)
            asked = setup.profile.speed_deviation
            varies = any(asked(job.workload, job.global_batch, n) > 0.0 for n in slots)
            found[job.workload] = found.get(job.workload, False) or varies
        return found
