"""ResNet50 and VGG16: image classification.

Sizes ``tiny`` and ``small`` are for pictures of 32x32, at a quarter of the papers' width and
at all of it (``small_pictures.py``). Size ``paper`` is torchvision's own model at 224x224.
"""

from __future__ import annotations

from collections.abc import Mapping

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import resnet, vgg

from workloads import small_pictures
from workloads.image_workload import ImageSize, ImageWorkload
from workloads.training import Recipe


class ResNet50(ImageWorkload):
    """ResNet50 with BatchNorm: He et al., CVPR '16."""

    name = "resnet50"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(16, 32, (8_192, 10), Recipe(0.02, warmup_steps=10)),
        "small": ImageSize(64, 32, (50_000, 10), Recipe(0.02, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.1, 256, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_pictures.resnet50(width, num_classes)
        model: torch.nn.Module = resnet.resnet50(num_classes=num_classes)
        return model


class VGG16(ImageWorkload):
    """VGG16 with Dropout and without BatchNorm: Simonyan and Zisserman, ICLR '15."""

    name = "vgg16"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(16, 32, (8_192, 10), Recipe(0.005, warmup_steps=10)),
        "small": ImageSize(64, 32, (50_000, 10), Recipe(0.005, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.01, 256, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_pictures.vgg16(width, num_classes)
        model: torch.nn.Module = vgg.vgg16(num_classes=num_classes)
        return model
