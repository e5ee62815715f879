"""Evidence: what the workers of a job saw and made in each step, so that two jobs can be compared.

Lines of JSON in ``evidence-WORKER.jsonl`` of a job's directory, WORKER a logical worker's number,
or ``all`` for what all have in common. Each line has ``step`` (from 1), ``stage`` and ``found``:
by name a digest, or a number as ``float.hex``. A step's stages come in the order of cause and
effect, so the first that differs between two jobs says where to look. A step that was made again
after a death is there twice; the later line counts.

Tensors, if they are kept, are in ``evidence/step-STEP-WORKER.safetensors``, as ``STAGE/NAME``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """Stages of a step, in the order of cause and effect."""

    PARAMETERS = "parameters"
    """Of the model, before the step; common to all workers."""
    POSITIONS = "positions"
    """Which samples a worker is to have: ids and epochs."""
    SAMPLES = "samples"
    """The batch of a worker."""
    BUFFERS = "buffers"
    """That its forward pass begins with."""
    RANDOM = "random"
    """Random states it begins with: torch, device, numpy, python."""
    OPERATORS = "operators"
    """What the model's modules make, in the order of their computation."""
    LOSS = "loss"
    BACKWARD = "backward"
    """The gradients that autograd's operators give, in the order of their computation."""
    GRADIENTS = "gradients"
    """Of its own loss, by parameter, unscaled."""
    LAYOUT = "layout"
    """Parameters by bucket, where it is known; common to all, like all below."""
    REDUCED = "reduced"
    """The gradients that the update is given."""
    OPTIMIZER = "optimizer"
    """Its hyper-parameters and state, after the step."""
    UPDATED = "updated"
    """Parameters and buffers after the step."""


COMMON = "all"
"""In place of a worker's number."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Which steps of a job to keep evidence of."""

    first_step: int = 1
    last_step: int = 0
    """Both ends included, counted from 1; before the first: of none."""
    tensors: bool = False
    """Whether the tensors are kept too, not their digests alone."""
    operators: bool = False
    """Whether modules and autograd's operators are watched while they compute."""
