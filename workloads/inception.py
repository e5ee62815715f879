"""InceptionV3: image classification over branches of different kernels."""

from __future__ import annotations

from collections.abc import Mapping

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import inception

from harness.contracts.training import Batch
from workloads.image_workload import ImageSize, ImageWorkload
from workloads.small_inception import small_inception
from workloads.training import Recipe

_AUXILIARY = 0.4
"""Weight of the auxiliary classifier's loss, as torchvision's recipe has it."""


class InceptionV3(ImageWorkload):
    """InceptionV3: Szegedy et al., CVPR '16. Size ``paper`` has the auxiliary classifier."""

    name = "inception3"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(8, 32, (8_192, 10), Recipe(0.02, warmup_steps=10)),
        "small": ImageSize(32, 32, (50_000, 10), Recipe(0.02, warmup_steps=50)),
        "paper": ImageSize(None, 299, (1_281_167, 1_000), Recipe(0.045, 32, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_inception(width, num_classes)
        model: torch.nn.Module = inception.inception_v3(num_classes=num_classes, init_weights=True)
        return model

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross entropy, nats; with 0.4 of the auxiliary classifier's where there is one."""
        scores = model(batch["image"])
        cross_entropy = torch.nn.functional.cross_entropy
        if isinstance(scores, torch.Tensor):
            return cross_entropy(scores, batch["label"])
        main, auxiliary = scores
        return cross_entropy(main, batch["label"]) + _AUXILIARY * cross_entropy(
            auxiliary, batch["label"]
        )
