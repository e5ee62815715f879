"""ResNet18: image classification with the smallest network of its family (10 M parameters)."""

from __future__ import annotations

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
from torchvision.models import resnet

from workloads import small_pictures
from workloads.image_workload import ImageWorkload, image_sizes
from workloads.training import Recipe


class ResNet18(ImageWorkload):
    """ResNet18 with BatchNorm: He et al., CVPR '16."""

    name = "resnet18"
    sizes = image_sizes(
        tiny=(16, Recipe(0.02, warmup_steps=10)),
        small=(64, Recipe(0.02, warmup_steps=50)),
        paper=Recipe(0.1, 256, warmup_steps=500),
    )
    narrow = staticmethod(small_pictures.resnet18)
    published = staticmethod(resnet.resnet18)
