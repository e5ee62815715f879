"""Options of the live engine, and its checks before a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from harness.contracts.evidence import Evidence
from harness.contracts.job import JobSpec
from harness.contracts.training import AdaptiveBatch
from harness.engines.live.engine import LiveEngine
from harness.engines.live.memory_estimate import estimated_memory_bytes, reference_memory_bytes
from harness.engines.live.reference_check import hold_to_fixed_size
from harness.engines.live.spares import steps_to_execute
from harness.engines.setup import EngineSetup
from harness.machine.devices import device_problems, instruction_set_problems
from harness.results.records import RunRecords

EVIDENCE = ("none", "digests", "tensors", "operators")
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
class Live:
    """Options of the live engine.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    pace: str = "none"
    """``none``: steps run at full speed; ``profile``: steps are padded to the profile's curves."""
    dilation: float = 1.0
    """Wall-clock seconds per second of the engine's clock; only with ``pace: profile``."""
    fast_forward: bool = True
    steady_steps: int = 5
    """Executed steps since its last change after which a job counts as steady. With spares the
    engine takes at least twenty, so that used spares are replaced first."""
    margin_steps: int = 3
    """Steps that are executed, not credited, before a job finishes."""
    first_steps: int = 0
    """Steps that every job executes before any of its steps is credited."""
    check_reference: bool = False
    """True: after the replay, train the references that finished jobs must equal bit for bit, and
    compare."""
    digest_every: int = 0
    """Steps from one digest of a job's state to the next; 0: only at the end."""
    evidence: str = "none"
    """Evidence to keep of the steps in ``evidence_steps``, for ``python -m harness.consistency``.
    Values: ``none``, ``digests``, ``tensors`` (with digests), or ``operators`` (both, and the
    outputs of all operators)."""
    evidence_steps: tuple[int, int] = (1, 30)
    """First and last step with evidence, counted from 1."""
    evaluate_epochs: float = 0.0
    """Epochs of training from one evaluation on held-out samples to the next; 0: at the end."""
    adaptive_largest: float = 8.0
    """Largest global batch over that of the job, with ``scaling: adaptive``."""
    adaptive_step_cost_samples: float = 32.0
    """Assumed fixed cost of a step, as samples that one worker computes in that time."""
    adaptive_every: int = 10
    """Steps from one choice of the batch to the next."""
    adaptive_smoothing: float = 0.9
    """Share of the old mean that each step keeps in the gradient statistics' running means."""
    stall_timeout_s: float = 180.0
    """Wall-clock seconds without a sign of life after which a job that trains fails."""
    name: str = "live"
    exclusive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        problems = []
        if self.pace not in ("none", "profile"):
            problems.append(f"pace is {self.pace!r}; known: none, profile")
        if not (math.isfinite(self.dilation) and self.dilation > 0):
            problems.append(f"dilation is {self.dilation}; it must be finite and > 0")
        if self.pace == "none" and self.dilation != 1.0:
            problems.append(
                f"dilation is {self.dilation}, but only a paced clock can be slowed;"
                " set pace=profile or dilation=1"
            )
        for field in ("steady_steps", "margin_steps"):
            if getattr(self, field) < 1:
                problems.append(f"{field} is {getattr(self, field)}; it must be at least 1")
        if self.first_steps < 0:
            problems.append(f"first_steps is {self.first_steps}; use 0 for none")
        if self.digest_every < 0:
            problems.append(f"digest_every is {self.digest_every}; use 0 for none but the last")
        if self.evidence not in EVIDENCE:
            problems.append(f"evidence is {self.evidence!r}; known: {', '.join(EVIDENCE)}")
        first, last = self.evidence_steps
        if not 1 <= first <= last:
            problems.append(
                f"evidence_steps is [{first}, {last}]; give the first and the last, from 1 on"
            )
        if self.check_reference and self.fast_forward:
            problems.append(
                "check_reference is true, and with fast_forward=true most steps would be credited,"
                " not executed, so that there is little to compare; set fast_forward=false"
            )
        problems += self._adaptive_problems()
        if not self.stall_timeout_s > 0:
            problems.append(f"stall_timeout_s is {self.stall_timeout_s}; it must be > 0")
        if problems:
            raise ValueError("\n".join(problems))

    def _adaptive_problems(self) -> list[str]:
        problems = []
        if not 0 <= self.evaluate_epochs < math.inf:
            problems.append(f"evaluate_epochs is {self.evaluate_epochs}; use 0 for the end only")
        if not 1 <= self.adaptive_largest < math.inf:
            problems.append(f"adaptive_largest is {self.adaptive_largest}; it must be at least 1")
        if not 0 < self.adaptive_step_cost_samples < math.inf:
            problems.append(
                f"adaptive_step_cost_samples is {self.adaptive_step_cost_samples}; it must be > 0"
            )
        if self.adaptive_every < 1:
            problems.append(f"adaptive_every is {self.adaptive_every}; it must be at least 1")
        if not 0 <= self.adaptive_smoothing < 1:
            problems.append(
                f"adaptive_smoothing is {self.adaptive_smoothing}; it must be from 0 to below 1"
            )
        return problems

    def adaptive_order(self, spec: JobSpec) -> AdaptiveBatch:
        """Return the parameters by which this job adapts its batch, with ``scaling: adaptive``."""
        return AdaptiveBatch(
            initial=spec.global_batch,
            largest=int(self.adaptive_largest * spec.global_batch),
            target_samples=math.ceil(spec.work_samples),
            step_cost_samples=self.adaptive_step_cost_samples,
            every=self.adaptive_every,
            smoothing=self.adaptive_smoothing,
        )

    @property
    def evidence_order(self) -> Evidence:
        """Evidence that backends are asked to keep."""
        if self.evidence == "none":
            return Evidence()
        first, last = self.evidence_steps
        tensors, operators = self.evidence != "digests", self.evidence == "operators"
        return Evidence(first, last, tensors=tensors, operators=operators)

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
                f"scaling=adaptive with {option}: what a step will be is not known before it is"
                f" made; set {instead}"
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
                        "steps that are padded are not slowed by a neighbour",
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

    def cautions(self, setup: EngineSetup) -> list[str]:
        """Return the cautions of the backend."""
        return [f"backend.{text}" for text in setup.backend.cautions(setup.cluster)]

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
