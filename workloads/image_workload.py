"""Base of image classification; subclasses add the network and its numbers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.images import NEEDS_ROOT, open_images
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluate_classifier


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


CIFAR10 = (50_000, 10)
"""Training samples and classes of CIFAR-10, also those of the synthetic set of size ``small``."""
IMAGENET = (1_281_167, 1_000)
"""Training samples and classes of ImageNet-1k, which the synthetic set of size ``paper`` has."""


def image_sizes(
    *, tiny: tuple[int, Recipe], small: tuple[int, Recipe], paper: Recipe, paper_side: int = 224
) -> dict[str, ImageSize]:
    """Return the sizes of a model: ``paper``, and two for pictures of 32x32 pixels.

    These two, ``tiny`` and ``small``, have the given widths and recipes.
    """
    return {
        "tiny": ImageSize(tiny[0], 32, (8_192, 10), tiny[1]),
        "small": ImageSize(small[0], 32, CIFAR10, small[1]),
        "paper": ImageSize(None, paper_side, IMAGENET, paper),
    }


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(batch["image"])
    return scores


class ImageWorkload(SizedWorkload[ImageSize]):
    """A network over pictures, trained with SGD; each of its ``sizes`` has a width and a recipe."""

    data_sets = NEEDS_ROOT

    @staticmethod
    @abstractmethod
    def narrow(width: int, num_classes: int, /) -> torch.nn.Module:
        """Return the network for pictures of 32x32."""

    @staticmethod
    @abstractmethod
    def published(*, num_classes: int) -> torch.nn.Module:
        """Return torchvision's own network."""

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``image`` (n, 3, side, side) and ``label`` (n)."""
        return open_images(data, root, self._plan.image_size, self._plan.synthetic, seed)

    def _build(self) -> torch.nn.Module:
        width, num_classes = self._plan.width, self._data.num_labels
        if width is None:
            return self.published(num_classes=num_classes)
        return self.narrow(width, num_classes)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return SGD with momentum 0.9 and weight decay, as in the networks' papers."""
        return torch.optim.SGD(
            model.parameters(), lr=self._recipe.learning_rate, momentum=0.9, weight_decay=1e-4
        )

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross entropy, nats."""
        return torch.nn.functional.cross_entropy(_logits(model, batch), batch["label"])

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return accuracy, also of each class, and loss on held-out pictures."""
        data, num_samples = self._data, self._evaluation_samples
        return evaluate_classifier(model, _logits, data.held_out, num_samples, data.num_labels)
