"""What a program is built from, told to a process that is to build it before its worker is needed.

Torch-free: the driver writes it, a standby reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.contracts.engine import Change
from harness.contracts.training import WorkloadSpec


@dataclass(frozen=True, slots=True)
class Recipe:
    """The part that is the same on every slot."""

    workload: str
    """``package.module.Class``."""
    options: Mapping[str, Any]
    """Of the class."""
    seed: int
    """Of the job that was seen first with this program."""
    batches: tuple[int, ...]
    """Sizes of the batches of the passes that are made in advance."""
    is_reduced: bool
    """Whether its gradients will be reduced in order, by ``OrderedReduction``."""
    common_kernels: bool
    """Whether operators are to have kernels that all types of devices have."""

    @classmethod
    def of(
        cls, spec: WorkloadSpec, seed: int, change: Change, *, is_reduced: bool, common: bool
    ) -> Recipe:
        """What a job trains that begins with ``change``.

        Shares of its batch are guessed: of as many workers as now, and of twice as many. A single
        sample is left out, which a model may refuse.
        """
        num_workers = len(change.slots)
        own, half = (-(-change.global_batch // count) for count in (num_workers, 2 * num_workers))
        batches = (own, half) if 1 < half < own else (own,)
        return cls(spec.target, dict(spec.options), seed, batches, is_reduced, common)

    @property
    def identity(self) -> str:
        """The same for programs that differ in nothing but first values and passes made."""
        return json.dumps([self.workload, self.options], sort_keys=True)

    def to_json(self) -> str:
        """As an argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """What ``to_json`` gave."""
        fields = json.loads(text)
        return cls(**{**fields, "batches": tuple(fields["batches"])})
