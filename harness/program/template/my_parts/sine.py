"""Workload: a small network learns a sine wave."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from harness.contracts.workload import Batch
from workloads.training import Recipe, evaluating, seeded


class Sine:
    """Two layers on points of a noisy sine wave.

    A workload knows no worker and no backend. The backend hands it ids of samples, sums the
    gradients over all workers, and asks it for the update.
    """

    name = "sine"
    size = "tiny"

    def __init__(
        self, *, hidden: int = 64, num_samples: int = 4096, learning_rate: float = 0.05
    ) -> None:
        """Take the options of the YAML file and make the data.

        Args:
            hidden: units of the hidden layer.
            num_samples: samples of an epoch.
            learning_rate: rate at a global batch of 64; it grows in proportion to the batch.
        """
        if hidden < 1 or num_samples < 1:
            raise ValueError(f"hidden is {hidden}, num_samples is {num_samples}; use 1 or more")
        self._hidden = hidden
        self._recipe = Recipe(learning_rate, reference_batch=64)
        self.num_samples = num_samples
        # The data are the same in every process: a rescale may hand a sample to another worker.
        generator = torch.Generator().manual_seed(0)
        self._x = 6 * torch.rand(num_samples + 512, 1, generator=generator) - 3
        self._y = torch.sin(self._x) + 0.1 * torch.randn(self._x.shape, generator=generator)

    def build_model(self, seed: int) -> nn.Module:
        """Return a new model on the CPU; the same seed gives the same bits."""
        with seeded(seed):
            return nn.Sequential(nn.Linear(1, self._hidden), nn.Tanh(), nn.Linear(self._hidden, 1))

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(model.parameters(), lr=self._recipe.learning_rate)

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """Return the samples with these ids; each depends on its id alone."""
        if any(not 0 <= one < self.num_samples for one in ids):
            raise IndexError(f"ids are 0 to {self.num_samples - 1}")
        chosen = torch.as_tensor(ids, dtype=torch.long)
        return {"x": self._x[chosen], "y": self._y[chosen]}

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean squared error over the samples."""
        return nn.functional.mse_loss(model(batch["x"]), batch["y"])

    def update(
        self,
        optimizer: torch.optim.Optimizer,
        global_batch: float,
        step: int,
        samples: int | None = None,
    ) -> None:
        """Set the learning rate for this batch, then apply the gradients."""
        self._recipe.update(optimizer, global_batch, step)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the error on 512 points that are never trained on."""
        with evaluating(model):
            error = nn.functional.mse_loss(
                model(self._x[self.num_samples :]), self._y[self.num_samples :]
            )
        return {"squared_error": float(error)}
