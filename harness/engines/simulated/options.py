"""Options of the simulated engine, and its checks before a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.contracts.change import ChangeKind
from harness.engines.setup import EngineSetup
from harness.engines.simulated.engine import SimulatedEngine
from harness.engines.simulated.speeds import Speeds
from harness.engines.simulated.variation import Variation
from harness.profiles import ProfileError
from harness.results.records import RunRecords


@dataclass(frozen=True)
class Simulated:
    """Options of the simulated engine.

    ``rescale_cost``: ``profile`` charges the profile's costs, ``zero`` charges nothing.
    ``plan_speeds`` sets the speeds of jobs with virtual workers. ``model`` is EasyScale's model,
    which leaves communication out (``profiles.virtual_workers``), unless the profile was measured
    under their backend. ``curve`` takes T(w), like a live run that is paced to the profile. A
    profile with curves of several device types always uses the model.

    Raises:
        ValueError: an option has no such value.
    """

    rescale_cost: str = "profile"
    rescale_cost_factor: float = 1.0
    checkpoint_every_s: float = 600.0
    """Seconds of training between checkpoints, for jobs that crash and for backends that lose a job
    with a worker (ten minutes is EDL's example). Infinite: only changes save."""
    plan_speeds: str = "model"
    name: str = "simulated"
    exclusive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.rescale_cost not in ("profile", "zero"):
            raise ValueError(f"rescale_cost is {self.rescale_cost!r}; known: profile, zero")
        if self.plan_speeds not in ("model", "curve"):
            raise ValueError(f"plan_speeds is {self.plan_speeds!r}; known: model, curve")
        if not (math.isfinite(self.rescale_cost_factor) and self.rescale_cost_factor >= 0):
            raise ValueError(
                f"rescale_cost_factor is {self.rescale_cost_factor}; it must be finite and >= 0"
            )
        if not self.checkpoint_every_s > 0:
            raise ValueError(
                f"checkpoint_every_s is {self.checkpoint_every_s}; it must be > 0 (.inf: only"
                " changes save)"
            )

    def estimated_wall_s(self, setup: EngineSetup) -> float:
        """Return the start-up time and 0.2 ms per job, in seconds (measured on the 82,247 jobs of
        philly)."""
        return 2.0 + 2e-4 * len(setup.jobs)

    def problems(self, setup: EngineSetup) -> list[str]:
        """Return curves and costs missing in the profile, also for the cluster's device types."""
        problems = []
        if setup.scaling == "adaptive":
            problems.append(
                "scaling=adaptive needs the gradients of real training, which no simulation has;"
                " use engine=live, or scaling=strong or weak"
            )
        workloads = {job.workload for job in setup.jobs}
        problems += setup.profile.curve_problems(workloads, setup.cluster.device_types)
        is_free = self.rescale_cost == "zero" or self.rescale_cost_factor == 0.0
        for workload in () if is_free else sorted(workloads & {*setup.profile.workloads}):
            try:
                setup.profile.rescale_cost(
                    setup.backend.name, workload, ChangeKind.START, 0, 1, setup.backend.warmth
                )
            except ProfileError as error:
                problems += map(str, error.problems)
        return list(dict.fromkeys(map(str, problems)))

    def warnings(self, setup: EngineSetup) -> list[str]:
        """Return an empty list, because a simulation trains nothing."""
        return []

    def open(self, setup: EngineSetup) -> SimulatedEngine:
        """Return an engine at time 0."""
        return self._engine(setup, None)

    def _engine(self, setup: EngineSetup, variation: Variation | None) -> SimulatedEngine:
        factor = 0.0 if self.rescale_cost == "zero" else self.rescale_cost_factor
        follow_curve = self.plan_speeds == "curve"
        speeds = Speeds(setup, follow_curve=follow_curve, variation=variation)
        return SimulatedEngine(setup, speeds, factor, self.checkpoint_every_s, variation)

    def check(
        self, setup: EngineSetup, records: RunRecords, keep_in: Path, say: Callable[[str], None]
    ) -> None:
        """Check nothing, because a simulation trains nothing."""
