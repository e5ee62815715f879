"""Order to train a job, which the engine gives a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.contracts.evidence import Evidence
from harness.contracts.workload import WorkloadSpec

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class AdaptiveBatch:
    """Parameters by which a job adapts its global batch and learning rate while it trains
    (``scaling=adaptive``; Qiao et al., "Pollux", OSDI '21, simplified as in
    ``systems.runtime.worker.adaptive_batch``)."""

    initial: int
    """Global batch that the job was given, in samples; also the smallest batch, m0."""
    largest: int
    """Largest global batch, samples."""
    target_samples: int
    """Samples after which the job is finished."""
    step_cost_samples: float
    """Fixed cost of a step, as the number of samples that one worker computes in that time."""
    every: int
    """Steps from one choice of the batch to the next."""
    smoothing: float
    """Share of the old mean that each step keeps in the gradient statistics' running means."""


@dataclass(frozen=True, slots=True)
class TrainingOrder:
    """Everything that a backend needs to train one job, except the slots."""

    job_id: str
    workload: WorkloadSpec
    seed: int
    target_step: int
    """Steps to execute before the job is finished; ``Backend.hold`` may change it."""
    job_dir: Path
    """Folder of the job's logs and step files. The engine reads ``steps.jsonl``. The file
    ``accusations.jsonl`` exists where the backend kills silent workers, and
    ``coordination-*.jsonl`` where workers elect a leader. Checkpoints go into ``checkpoints/``,
    which the engine removes once the run has ended."""
    step_floor_s: Mapping[int, float] = field(default_factory=dict)
    """Least wall-clock seconds of a step, by number of slots (paced mode); empty: unpaced."""
    digest_every: int = 0
    """Steps from one recorded digest of the state to the next; 0: only at the end."""
    evaluate_epochs: float = 0.0
    """Epochs of training from one evaluation to the next, recorded in ``evaluations.jsonl`` of the
    job's directory; 0: only at the end."""
    adaptive: AdaptiveBatch | None = None
    """Parameters of the adaptive batch; None: each change sets the batch. Only for backends with
    the ability ``adapt_batch``."""
    evidence: Evidence = field(default_factory=Evidence)
    """Steps for which to keep evidence, in the job's directory. A backend that does not run this
    project's own workers may keep none."""
    marks: Path | None = None
    """Folder in which every worker keeps its mark (``contracts.marks``), in a file named after its
    process; None: no marks. A backend may have no marks."""
