"""ResNet50 and VGG16: image classification.

Sizes ``tiny`` and ``small`` are for pictures of 32x32, at a quarter of the papers' width and at
full width (``small_pictures.py``). Size ``paper`` is torchvision's own model at 224x224.
"""

from __future__ import annotations

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
from torchvision.models import resnet, vgg

from workloads import small_pictures
from workloads.idle_pool import without_idle_pool
from workloads.image_workload import ImageWorkload, image_sizes
from workloads.training import Recipe


class ResNet50(ImageWorkload):
    """ResNet50 with BatchNorm: He et al., CVPR '16."""

    name = "resnet50"
    sizes = image_sizes(
        tiny=(16, Recipe(0.02, warmup_steps=10)),
        small=(64, Recipe(0.02, warmup_steps=50)),
        paper=Recipe(0.1, 256, warmup_steps=500),
    )
    narrow = staticmethod(small_pictures.resnet50)
    published = staticmethod(resnet.resnet50)


class VGG16(ImageWorkload):
    """VGG16 with Dropout and without BatchNorm: Simonyan and Zisserman, ICLR '15."""

    name = "vgg16"
    sizes = image_sizes(
        tiny=(16, Recipe(0.005, warmup_steps=10)),
        small=(64, Recipe(0.005, warmup_steps=50)),
        paper=Recipe(0.01, 256, warmup_steps=500),
    )
    narrow = staticmethod(small_pictures.vgg16)
    published = staticmethod(without_idle_pool(vgg.vgg16))
