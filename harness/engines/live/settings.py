"""Settings of the live engine, and their ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.contracts.evidence import Evidence
from harness.contracts.job import JobSpec
from harness.contracts.training_order import AdaptiveBatch

EVIDENCE = ("none", "digests", "tensors", "operators")


@dataclass(frozen=True)
class LiveSettings:
    """Settings of the live engine.

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
            problems.append(f"digest_every is {self.digest_every}; use 0 for the last one only")
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
