"""Instructions for a standby to build a program before a worker needs it.

The driver writes recipes and a standby reads them, so the module does not import torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.contracts.change import Change
from harness.contracts.workload import WorkloadSpec


@dataclass(frozen=True, slots=True)
class Recipe:
    """Description of a program, the same on every slot."""

    workload: str
    """Import path of the workload: ``package.module.Class``."""
    options: Mapping[str, Any]
    """Options of the workload class."""
    seed: int
    """Seed of the first job with this program."""
    batches: tuple[int, ...]
    """Batch sizes of the passes that are made in advance."""
    is_reduced: bool
    """True if ``OrderedReduction`` will reduce its gradients."""
    common_kernels: bool
    """True if operators must use kernels that all types of devices have."""

    @classmethod
    def of(
        cls, spec: WorkloadSpec, seed: int, change: Change, *, is_reduced: bool, common: bool
    ) -> Recipe:
        """Return the recipe of a job that begins with ``change``.

        The share of its batch is a guess: that of the present number of workers, and that of twice
        as many. A share of one sample is left out, since a model may refuse it.
        """
        num_workers = len(change.slots)
        own, half = (-(-change.global_batch // count) for count in (num_workers, 2 * num_workers))
        batches = (own, half) if 1 < half < own else (own,)
        return cls(spec.target, dict(spec.options), seed, batches, is_reduced, common)

    @property
    def identity(self) -> str:
        """Identity of the program, whatever its first values and its passes in advance."""
        return json.dumps([self.workload, self.options], sort_keys=True)

    def to_json(self) -> str:
        """Return the recipe as a command-line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Return the recipe that ``to_json`` described."""
        fields = json.loads(text)
        return cls(**{**fields, "batches": tuple(fields["batches"])})
