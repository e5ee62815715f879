"""What image classification has in common: everything but the network and the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from harness.contracts.training import Batch
from workloads.data.images import NEEDS_ROOT, open_images
from workloads.options import Overrides, check_options
from workloads.training import Recipe, evaluate_classifier, seeded


@dataclass(frozen=True, slots=True)
class ImageSize:
    """One size of an image workload."""

    width: int | None
    """Channels of the first layer; None: torchvision's own model."""
    image_size: int
    """Side in pixels."""
    synthetic: tuple[int, int]
    """Samples and classes of the synthetic set."""
    recipe: Recipe


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(batch["image"])
    return scores


class ImageWorkload(ABC):
    """A network over pictures, with SGD; each of its ``sizes`` says how wide and how trained."""

    name: str
    sizes: Mapping[str, ImageSize]

    def __init__(
        self,
        *,
        size: str = "tiny",
        data: str = "digits",
        root: str | None = None,
        data_seed: int = 0,
        learning_rate: float | None = None,
        warmup_steps: int | None = None,
        evaluation_samples: int | None = None,
    ) -> None:
        """Open the data; the model is built later.

        Args:
            size: ``tiny``, ``small`` or ``paper``.
            data: ``digits`` (real, 10 classes), ``synthetic``, ``cifar10``, ``cifar100``,
                ``food101``, ``imagefolder``.
            root: folder of the files, for the last four.
            data_seed: of the synthetic pictures and of the digits' split; not of training.
            learning_rate: at the reference batch; None: the size's own.
            warmup_steps: None: the size's own.
            evaluation_samples: evaluate on this many held-out samples only; None: all.

        Raises:
            ValueError: all options that cannot be, one a line.
            DataError: files that are missing or malformed.
        """
        overrides = Overrides(learning_rate, warmup_steps, evaluation_samples)
        check_options(
            size=size,
            sizes=tuple(self.sizes),
            data=data,
            needs_root=NEEDS_ROOT,
            root=root,
            overrides=overrides,
        )
        self.size = size
        self._plan = self.sizes[size]
        self._recipe = overrides.applied_to(self._plan.recipe)
        self._evaluation_samples = evaluation_samples
        self._data = open_images(
            data, root or "", self._plan.image_size, self._plan.synthetic, data_seed
        )
        self.num_samples = len(self._data.train)

    @abstractmethod
    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        """The network of this width (None: as published)."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """The network, its parameters drawn from ``seed``; no other random state moves."""
        with seeded(seed):
            return self._network(self._plan.width, self._data.num_labels)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """SGD with momentum 0.9 and weight decay, as the networks' papers have it."""
        return torch.optim.SGD(
            model.parameters(), lr=self._recipe.learning_rate, momentum=0.9, weight_decay=1e-4
        )

    def samples(self, ids: Sequence[int]) -> Batch:
        """``image`` (n, 3, side, side) and ``label`` (n)."""
        return self._data.train.samples(ids)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross entropy, nats."""
        return torch.nn.functional.cross_entropy(_logits(model, batch), batch["label"])

    def update(self, optimizer: torch.optim.Optimizer, global_batch: int, step: int) -> None:
        """One step of SGD at the learning rate of this batch and step (from 0)."""
        self._recipe.update(optimizer, global_batch, step)

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Accuracy and loss on held-out pictures."""
        return evaluate_classifier(model, _logits, self._data.held_out, self._evaluation_samples)
