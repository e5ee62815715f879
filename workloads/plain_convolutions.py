"""VGG11 with BatchNorm, VGG19 and AlexNet: chains of convolutions and a head of linear layers.

Their heads make them heavy for their speed: much to send for what they compute.
"""

from __future__ import annotations

from collections.abc import Mapping

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import vgg
from torchvision.models.alexnet import AlexNet as PublishedAlexNet

from workloads import small_pictures
from workloads.image_workload import ImageSize, ImageWorkload
from workloads.training import Recipe


class VGG11BN(ImageWorkload):
    """VGG11 with BatchNorm and Dropout: Simonyan and Zisserman, ICLR '15, configuration A."""

    name = "vgg11_bn"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(16, 32, (8_192, 10), Recipe(0.01, warmup_steps=10)),
        "small": ImageSize(64, 32, (50_000, 10), Recipe(0.01, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.05, 256, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_pictures.vgg11_bn(width, num_classes)
        model: torch.nn.Module = vgg.vgg11_bn(num_classes=num_classes)
        return model


class VGG19(ImageWorkload):
    """VGG19 with Dropout: Simonyan and Zisserman, ICLR '15, configuration E."""

    name = "vgg19"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(16, 32, (8_192, 10), Recipe(0.005, warmup_steps=10)),
        "small": ImageSize(64, 32, (50_000, 10), Recipe(0.005, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.01, 256, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_pictures.vgg19(width, num_classes)
        model: torch.nn.Module = vgg.vgg19(num_classes=num_classes)
        return model


class AlexNet(ImageWorkload):
    """AlexNet with Dropout: Krizhevsky, arXiv:1404.5997, as torchvision has it."""

    name = "alexnet"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(16, 32, (8_192, 10), Recipe(0.01, warmup_steps=10)),
        "small": ImageSize(64, 32, (50_000, 10), Recipe(0.01, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.01, 128, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        if width is not None:
            return small_pictures.alexnet(width, num_classes)
        model: torch.nn.Module = PublishedAlexNet(num_classes=num_classes)
        return model
