"""Workload: what a step of training computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import torch

Batch: TypeAlias = "Mapping[str, torch.Tensor]"


class Workload(Protocol):
    """Model with its data, loss, update and evaluation. Implementations: ``workloads/``.

    Every result depends only on the seed and the arguments: two equal calls give the same bits.
    """

    name: str
    size: str
    num_samples: int
    """Samples of an epoch; their ids are 0 to num_samples - 1."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """Return a new model on the CPU, with its parameters drawn from ``seed``."""
        ...

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return an optimizer over the model's parameters."""
        ...

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """Return the samples with these ids, stacked along dimension 0, on the CPU. The values of a
        sample do not depend on the other samples in the call.

        Args:
            ids: ids of the samples.
            epochs: the epoch in which each sample is consumed; a workload that augments its samples
                varies them from epoch to epoch. None: as they are stored.
        """
        ...

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the samples of ``batch``, a scalar to call ``backward`` on."""
        ...

    def update(
        self,
        optimizer: torch.optim.Optimizer,
        global_batch: float,
        step: int,
        samples: int | None = None,
    ) -> None:
        """Apply the gradients: set the learning rate for this global batch and step, then call
        ``step()``.

        The learning rate is proportional to the global batch, from the workload's own reference
        batch.

        Args:
            optimizer: as ``build_optimizer`` returned it.
            global_batch: samples of the step. Where the batch is adapted: the batch whose learning
                rate the step is to have, which may be a fraction.
            step: counted from 0.
            samples: samples consumed by the steps before, from which the epoch follows. None: as
                many as ``step`` steps of this batch consume.
        """
        ...

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return metrics on held-out samples; the first entry is the main metric."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Class path and plain options from which a worker process builds its workload."""

    name: str
    target: str
    """``package.module.Class``."""
    options: Mapping[str, Any] = field(default_factory=dict)
