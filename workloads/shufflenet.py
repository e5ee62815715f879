"""ShuffleNetV2: image classification with little to compute and little to send."""

from __future__ import annotations

from collections.abc import Mapping

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import shufflenetv2

from workloads.image_workload import ImageSize, ImageWorkload
from workloads.training import Recipe

_REPEATS = (4, 8, 4)


class ShuffleNetV2(ImageWorkload):
    """ShuffleNetV2 x1.0: Ma et al., ECCV '18.

    For pictures of 32x32 the first pooling is left out; ``width`` is the first stage's.
    """

    name = "shufflenetv2"
    sizes: Mapping[str, ImageSize] = {
        "tiny": ImageSize(48, 32, (8_192, 10), Recipe(0.05, warmup_steps=10)),
        "small": ImageSize(116, 32, (50_000, 10), Recipe(0.05, warmup_steps=50)),
        "paper": ImageSize(None, 224, (1_281_167, 1_000), Recipe(0.5, 1_024, warmup_steps=500)),
    }

    def _network(self, width: int | None, num_classes: int) -> torch.nn.Module:
        model: torch.nn.Module
        if width is None:
            model = shufflenetv2.shufflenet_v2_x1_0(num_classes=num_classes)
            return model
        channels = [24, width, 2 * width, 4 * width, 1_024]
        model = shufflenetv2.ShuffleNetV2(list(_REPEATS), channels, num_classes)
        model.maxpool = torch.nn.Identity()
        return model
