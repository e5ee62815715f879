"""Toy: a network so small that a step takes about a millisecond, for tests."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.digits import open_digits
from workloads.emulated_device import occupy
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluate_classifier


@dataclass(frozen=True, slots=True)
class ToySize:
    """Size of the toy network; there is only one."""

    recipe: Recipe


def _logits(model: nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(batch["image"])
    return scores


class Toy(SizedWorkload[ToySize]):
    """One hidden layer on the 8x8 digits; torch is the only large import."""

    name = "toy"
    sizes: Mapping[str, ToySize] = {"tiny": ToySize(Recipe(0.05))}
    data_sets: Mapping[str, bool] = {"digits": False}

    def __init__(
        self,
        *,
        size: str = "tiny",
        data: str | None = None,
        root: str | None = None,
        data_seed: int = 0,
        augment: bool = False,
        hidden: int = 32,
        sample_s: float = 0.0,
        learning_rate: float | None = None,
        warmup_steps: int | None = None,
        evaluation_samples: int | None = None,
        gamma: float | None = None,
        decay_epochs: float | None = None,
    ) -> None:
        """Open the data; the model is built later.

        Args:
            size: ``tiny``.
            data: ``digits``.
            root: None, because no data set of this workload reads files.
            data_seed: seed of the digits' split and of augmentation; not of training.
            augment: move every digit a little, differently in every epoch.
            hidden: number of hidden units, of 75 parameters each; it sets the size of the state.
            sample_s: seconds that an emulated device takes for each sample of a loss; 0: none.
            learning_rate: learning rate at the reference batch; None: the value of the size.
            warmup_steps: steps of the warm-up; None: the value of the size.
            evaluation_samples: evaluate on this many held-out samples only; None: all.
            gamma: factor on the learning rate each time ``decay_epochs`` have been trained; None:
                the rate does not decay.
            decay_epochs: epochs between two decays; given with ``gamma``.

        Raises:
            ValueError: options are out of range; the text has one line for each.
            DataError: scikit-learn's digits are not in their usual place.
        """
        self._hidden = hidden
        self._sample_s = sample_s
        super().__init__(
            size=size,
            data=data,
            root=root,
            data_seed=data_seed,
            augment=augment,
            learning_rate=learning_rate,
            warmup_steps=warmup_steps,
            evaluation_samples=evaluation_samples,
            gamma=gamma,
            decay_epochs=decay_epochs,
        )

    def _problems(self) -> list[str]:
        problems = []
        if self._hidden < 1:
            problems.append(f"hidden is {self._hidden}; it must be at least 1")
        if not 0 <= self._sample_s < math.inf:
            problems.append(f"sample_s is {self._sample_s}; it must be finite and >= 0")
        return problems

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``image`` (n, 1, 8, 8) and ``label`` (n)."""
        return open_digits(image_size=8, channels=1, seed=seed)

    def _build(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict[str, nn.Module](
                flatten=nn.Flatten(),
                hidden=nn.Linear(64, self._hidden),
                relu=nn.ReLU(),
                output=nn.Linear(self._hidden, self._data.num_labels),
            )
        )

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return SGD with momentum 0.9."""
        return torch.optim.SGD(model.parameters(), lr=self._recipe.learning_rate, momentum=0.9)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross entropy, nats."""
        occupy(self._sample_s * len(batch["label"]))
        return nn.functional.cross_entropy(_logits(model, batch), batch["label"])

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return accuracy, also of each class, and loss on held-out digits."""
        data, num_samples = self._data, self._evaluation_samples
        return evaluate_classifier(model, _logits, data.held_out, num_samples, data.num_labels)
