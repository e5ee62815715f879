"""ResNet18: image classification, with ten million parameters the smallest of its family."""

from __future__ import annotations

from collections.abc import Mapping

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import resnet

from workloads import small_pictures
from workloads.image_workload import ImageSize, ImageWorkload
from workloads.training import Recipe


class ResNet18(ImageWorkload):
    """ResNet18 with BatchNorm: He et al., CVPR '16."""

    name = "resnet18"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(16, 32, (8_192, 10), Recipe(0.02, warmup_steps=10)),
        "small": ImageSize(64, 32, (50_000, 10), Recipe(0.02, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.1, 256, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_pictures.resnet18(width, num_classes)
        model: torch.nn.Module = resnet.resnet18(num_classes=num_classes)
        return model
