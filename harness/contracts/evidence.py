"""Evidence: digests of what each worker has and computes in each step, to compare two jobs.

File ``evidence-WORKER.jsonl`` in a job's directory holds lines of JSON. WORKER is a logical
worker's number, or ``all`` for what all workers have in common. Each line has ``step`` (from 1),
``stage`` and ``found``, which maps names to digests or to numbers as ``float.hex``. The stages of a
step come in the order of cause and effect, so the first stage that differs between two jobs says
where to look. A step that is executed again after a worker's death appears twice; the later line
counts.

File ``evidence/step-STEP-WORKER.safetensors`` holds the tensors as ``STAGE/NAME``, if they are
kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """Stages of one training step, in order: each depends only on those before."""

    PARAMETERS = "parameters"
    """Parameters of the model before the step; common to all workers."""
    POSITIONS = "positions"
    """Ids and epochs of the samples that a worker is to have."""
    SAMPLES = "samples"
    """Batch of a worker."""
    BUFFERS = "buffers"
    """Buffers of the model at the start of the worker's forward pass."""
    RANDOM = "random"
    """Random states at the start of the forward pass: torch, device, numpy, python."""
    OPERATORS = "operators"
    """Outputs of the model's modules, in the order of their computation."""
    LOSS = "loss"
    BACKWARD = "backward"
    """Gradients that autograd's operators give, in the order of their computation."""
    GRADIENTS = "gradients"
    """Gradients of the worker's own loss, by parameter, unscaled."""
    LAYOUT = "layout"
    """Parameters of each gradient bucket, where known; common to all, like all later stages."""
    REDUCED = "reduced"
    """Gradients that the optimizer's update is given, after the sum over workers."""
    OPTIMIZER = "optimizer"
    """Hyper-parameters and state of the optimizer, after the step."""
    UPDATED = "updated"
    """Parameters and buffers after the step."""


COMMON = "all"
"""Word that replaces a worker's number for what all workers have in common."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Choice of the steps of a job for which evidence is kept."""

    first_step: int = 1
    last_step: int = 0
    """Last step, included, counted from 1; a value below ``first_step`` means no evidence."""
    tensors: bool = False
    """True if the tensors are kept in addition to their digests."""
    operators: bool = False
    """True if modules and autograd's operators are watched while they compute."""
