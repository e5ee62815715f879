"""Toy: a network so small that a step takes about a millisecond, for tests."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from harness.contracts.training import Batch
from workloads.data.digits import open_digits
from workloads.emulated_device import occupy
from workloads.options import Overrides, check_options
from workloads.training import Recipe, evaluate_classifier, seeded

_NEEDS_ROOT = {"digits": False}


def _logits(model: nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(batch["image"])
    return scores


def _problems(hidden: int, sample_s: float) -> list[str]:
    problems = []
    if hidden < 1:
        problems.append(f"hidden is {hidden}; it must be at least 1")
    if not 0 <= sample_s < math.inf:
        problems.append(f"sample_s is {sample_s}; it must be finite and >= 0")
    return problems


class Toy:
    """One hidden layer on the digits as they are, 8x8; imports torch and nothing else big."""

    name = "toy"
    sizes: Mapping[str, Recipe] = {"tiny": Recipe(0.05)}

    def __init__(
        self,
        *,
        size: str = "tiny",
        data: str = "digits",
        root: str | None = None,
        data_seed: int = 0,
        hidden: int = 32,
        sample_s: float = 0.0,
        learning_rate: float | None = None,
        warmup_steps: int | None = None,
        evaluation_samples: int | None = None,
    ) -> None:
        """Open the data; the model is built later.

        Args:
            size: ``tiny``.
            data: ``digits``.
            root: for data sets with files, of which there is none.
            data_seed: of the digits' split; not of training.
            hidden: hidden units: 75 parameters each, so this sets the size of the state.
            sample_s: seconds that an emulated device takes for each sample of a loss; 0: none.
            learning_rate: at the reference batch; None: the size's own.
            warmup_steps: None: the size's own.
            evaluation_samples: evaluate on this many held-out samples only; None: all.

        Raises:
            ValueError: all options that cannot be, one a line.
            DataError: scikit-learn's digits are not where they should be.
        """
        overrides = Overrides(learning_rate, warmup_steps, evaluation_samples)
        check_options(
            size=size,
            sizes=tuple(self.sizes),
            data=data,
            needs_root=_NEEDS_ROOT,
            root=root,
            overrides=overrides,
            problems=_problems(hidden, sample_s),
        )
        self.size = size
        self._hidden = hidden
        self._sample_s = sample_s
        self._recipe = overrides.applied_to(self.sizes[size])
        self._evaluation_samples = evaluation_samples
        self._data = open_digits(image_size=8, channels=1, seed=data_seed)
        self.num_samples = len(self._data.train)

    def build_model(self, seed: int) -> nn.Module:
        """The network, its parameters drawn from ``seed``; no other random state moves."""
        with seeded(seed):
            return nn.Sequential(
                OrderedDict[str, nn.Module](
                    flatten=nn.Flatten(),
                    hidden=nn.Linear(64, self._hidden),
                    relu=nn.ReLU(),
                    output=nn.Linear(self._hidden, self._data.num_labels),
                )
            )

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """SGD with momentum 0.9."""
        return torch.optim.SGD(model.parameters(), lr=self._recipe.learning_rate, momentum=0.9)

    def samples(self, ids: Sequence[int]) -> Batch:
        """``image`` (n, 1, 8, 8) and ``label`` (n)."""
        return self._data.train.samples(ids)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross entropy, nats."""
        occupy(self._sample_s * len(batch["label"]))
        return nn.functional.cross_entropy(_logits(model, batch), batch["label"])

    def update(self, optimizer: torch.optim.Optimizer, global_batch: int, step: int) -> None:
        """One step of SGD at the learning rate of this batch and step (from 0)."""
        self._recipe.update(optimizer, global_batch, step)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Accuracy and loss on held-out digits."""
        return evaluate_classifier(model, _logits, self._data.held_out, self._evaluation_samples)
