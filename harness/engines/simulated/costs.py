"""Costs of changes in simulation: the profile's costs, times a factor from the engine's options
and, optionally, a drawn factor for each change."""

from __future__ import annotations

from collections import Counter

from harness.contracts.change import Change, ChangeKind
from harness.engines.setup import EngineSetup
from harness.engines.simulated.job import SimulatedJob
from harness.engines.simulated.variation import Variation
from harness.profiles import RescaleCost

FREE = RescaleCost(0.0, 0.0, {})


class SimulatedCosts:
    """Costs under the backend of a run, by its profile; a factor of 0 makes all changes free.

    ``variation`` draws a factor for each change; None: every change costs what the profile says.
    """

    def __init__(
        self, setup: EngineSetup, factor: float, variation: Variation | None = None
    ) -> None:
        self._profile = setup.profile
        self._variation = variation
        self._backend = setup.backend.name
        self._warmth = setup.backend.warmth
        self._factor = factor
        self._recoveries: Counter[str] = Counter()
        """Number of recoveries of each job; each recovery draws its own cost."""
        self._stops_cost = factor > 0.0 and any(
            cell.kind is ChangeKind.STOP for cell in setup.profile.cost_cells
        )

    def of(self, change: Change) -> RescaleCost:
        """Return the cost of a change."""
        if self._factor == 0.0 or change.kind is ChangeKind.STOP:
            return FREE
        cost = self._profile.rescale_cost(
            self._backend,
            change.job.workload,
            change.kind,
            len(change.previous_slots),
            len(change.slots),
            self._warmth,
        )
        factor = self._factor
        if self._variation is not None:
            factor *= self._variation.of_cost(cost, change.job.job_id, change.change_id)
        return cost if factor == 1.0 else cost.times(factor)

    def stop_s(self, progress: SimulatedJob) -> float:
        """Return the time between the last sample of a job and its end, in seconds."""
        if not self._stops_cost:
            return 0.0
        workload, num_slots = progress.job.workload, len(progress.slots)
        cost = self._profile.rescale_cost(
            self._backend, workload, ChangeKind.STOP, num_slots, 0, self._warmth
        )
        factor = self._factor
        if self._variation is not None:
            factor *= self._variation.of_cost(cost, progress.job.job_id, "stop")
        return (cost.preparation_s + cost.pause_s) * factor

    def recovery_s(self, progress: SimulatedJob, num_before: int) -> float:
        """Return how long the survivors do not train: the pause of a rescale to their number, in
        seconds."""
        if self._factor == 0.0:
            return 0.0
        sizes = num_before, len(progress.slots)
        job_id, workload = progress.job.job_id, progress.job.workload
        cost = self._profile.rescale_cost(
            self._backend, workload, ChangeKind.RESCALE, *sizes, self._warmth
        )
        factor = self._factor
        if self._variation is not None:
            self._recoveries[job_id] += 1
            factor *= self._variation.of_cost(cost, job_id, f"recovery {self._recoveries[job_id]}")
        return cost.pause_s * factor
