"""Options of the live engine, and its checks before a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from harness.contracts.job import JobSpec
from harness.engines.live.devices import device_problems, instruction_set_problems
from harness.engines.live.engine import LiveEngine
from harness.engines.live.memory_estimate import estimated_memory_bytes, reference_memory_bytes
from harness.engines.live.reference_check import hold_to_fixed_size
from harness.engines.live.settings import LiveSettings
from harness.engines.live.spares import steps_to_execute
from harness.engines.setup import EngineSetup
from harness.results.records import RunRecords

_GUESSED_STEP_S, _TOY_STEP_S, _TOY_BYTES = 0.3, 0.003, 350_000_000
"""Guessed durations of a step, and the memory up to which a program counts as a toy with short
steps."""
_GUESSED_START_S = 4.0


def _guessed_step_s(setup: EngineSetup, job: JobSpec) -> float:
    """Return the guessed step duration of a program without a measured speed, in seconds."""
    if not 0 < setup.memory_bytes_per_worker.get(job.workload, 0) <= _TOY_BYTES:
        return _GUESSED_STEP_S
    spec = setup.workloads.get(job.workload)
    on_device_s = float(spec.options.get("sample_s") or 0.0) if spec is not None else 0.0
    return _TOY_STEP_S + on_device_s * job.global_batch / job.requested_slots


@dataclass(frozen=True)
class Live(LiveSettings):
    """Options of the live engine, with its checks of a run.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    name: str = "live"
    exclusive: ClassVar[bool] = True

    def estimated_wall_s(self, setup: EngineSetup) -> float:
        """Return the seconds to start every job once and execute its steps, with all slots in use.

        A step takes the profile's time if the run is paced or the profile was measured with real
        runs here. Otherwise it is guessed. With fast-forward a job executes its first steps and
        three steady stretches. A reference costs as much as its job.
        """
        knows = self.pace == "profile" or bool(setup.profile.provenance.get("measured_here"))
        slot_s = 0.0
        for job in setup.jobs:
            step_s = _guessed_step_s(setup, job)
            if knows and job.workload in setup.profile.workloads:
                curve = setup.profile.throughput(job.workload, job.global_batch)
                step_s = job.global_batch / curve.samples_per_s(job.requested_slots)
            steps = job.work_samples / job.global_batch
            if self.fast_forward:
                stretches = 3.0 * (steps_to_execute(setup, self.steady_steps) + self.margin_steps)
                steps = min(steps, self.first_steps + stretches)
            slot_s += job.requested_slots * (_GUESSED_START_S + steps * step_s * self.dilation)
        times = 2.0 if self.check_reference else 1.0
        return _GUESSED_START_S + times * slot_s / setup.cluster.num_slots

    def problems(self, setup: EngineSetup) -> list[str]:
        """Return what prevents the run: workloads that cannot be trained here, missing curves, too
        little memory, and what the backend lacks."""
        problems = [f"backend.{text}" for text in setup.backend.problems(setup.cluster)]
        names = sorted({job.workload for job in setup.jobs})
        known = ", ".join(sorted(setup.workloads)) or "none"
        problems += [
            f"workload {name!r} of the trace is not in the pool; known: {known}."
            " Choose another pool (workload=...) or assign the pool's workloads to the trace"
            for name in names
            if name not in setup.workloads
        ]
        problems += instruction_set_problems(setup.cluster)
        if self.pace == "none":
            problems += device_problems(setup.cluster)
        else:
            lacking = setup.profile.curve_problems(names, setup.cluster.device_types)
            problems += [f"pace=profile: {text}" for text in lacking]
        if setup.scaling == "adaptive":
            problems += [
                f"scaling=adaptive with {option}: the batch of a step is not known in advance;"
                f" set {instead}"
                for option, instead, is_set in (
                    ("fast_forward=true", "fast_forward=false", self.fast_forward),
                    ("pace=profile", "pace=none", self.pace != "none"),
                )
                if is_set
            ]
        if setup.cluster.shared_speed:
            problems += [
                f"{option} on cluster {setup.cluster.name!r}, whose devices jobs share: {fact};"
                f" set {instead}"
                for option, fact, instead, is_set in (
                    (
                        "fast_forward=true",
                        "steps would be credited at a speed from before a neighbour came or went",
                        "fast_forward=false",
                        self.fast_forward,
                    ),
                    (
                        "pace=profile",
                        "padded steps are not slowed by a neighbour",
                        "pace=none",
                        self.pace != "none",
                    ),
                )
                if is_set
            ]
        estimate = estimated_memory_bytes(setup)
        if self.check_reference:
            estimate = max(estimate, reference_memory_bytes(setup))
            try:
                setup.backend.reference(setup.cluster)
            except ValueError as error:
                problems += [f"check_reference: {text}" for text in str(error).splitlines()]
        available = psutil.virtual_memory().available
        if estimate > available:
            problems.append(
                f"the workers would need about {estimate / 2**30:.1f} GiB and"
                f" {available / 2**30:.1f} GiB are free; use smaller workloads"
                " (workload=tiny), fewer slots, or a larger machine"
            )
        return problems

    def warnings(self, setup: EngineSetup) -> list[str]:
        """Return the warnings of the backend."""
        return [f"backend.{text}" for text in setup.backend.warnings(setup.cluster)]

    def open(self, setup: EngineSetup) -> LiveEngine:
        """Return the engine at time 0, with launcher and backend ready and no job started."""
        return LiveEngine(self, setup)

    def check(
        self, setup: EngineSetup, records: RunRecords, keep_in: Path, say: Callable[[str], None]
    ) -> None:
        """Compare the finished jobs with training on fixed workers, if ``check_reference`` is set.

        Raises:
            FixedTrainingError: such a training failed.
        """
        if self.check_reference:
            hold_to_fixed_size(records, setup, keep_in, say)
