"""VGG11 with BatchNorm, VGG19 and AlexNet: chains of convolutions and a head of linear layers.

Because of their heads they have many gradients to send relative to their computation.
"""

from __future__ import annotations

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
from torchvision.models import vgg
from torchvision.models.alexnet import AlexNet as PublishedAlexNet

from workloads import small_pictures
from workloads.idle_pool import without_idle_pool
from workloads.image_workload import ImageWorkload, image_sizes
from workloads.training import Recipe


class VGG11BN(ImageWorkload):
    """VGG11 with BatchNorm and Dropout: Simonyan and Zisserman, ICLR '15, configuration A."""

    name = "vgg11_bn"
    sizes = image_sizes(
        tiny=(16, Recipe(0.01, warmup_steps=10)),
        small=(64, Recipe(0.01, warmup_steps=50)),
        paper=Recipe(0.05, 256, warmup_steps=500),
    )
    narrow = staticmethod(small_pictures.vgg11_bn)
    published = staticmethod(without_idle_pool(vgg.vgg11_bn))


class VGG19(ImageWorkload):
    """VGG19 with Dropout: Simonyan and Zisserman, ICLR '15, configuration E."""

    name = "vgg19"
    sizes = image_sizes(
        tiny=(16, Recipe(0.005, warmup_steps=10)),
        small=(64, Recipe(0.005, warmup_steps=50)),
        paper=Recipe(0.01, 256, warmup_steps=500),
    )
    narrow = staticmethod(small_pictures.vgg19)
    published = staticmethod(without_idle_pool(vgg.vgg19))


class AlexNet(ImageWorkload):
    """AlexNet with Dropout: Krizhevsky, arXiv:1404.5997, in torchvision's version."""

    name = "alexnet"
    sizes = image_sizes(
        tiny=(16, Recipe(0.01, warmup_steps=10)),
        small=(64, Recipe(0.01, warmup_steps=50)),
        paper=Recipe(0.01, 128, warmup_steps=500),
    )
    narrow = staticmethod(small_pictures.alexnet)
    published = staticmethod(without_idle_pool(PublishedAlexNet))
