"""ShuffleNetV2: image classification with little computation and few gradients to send."""

from __future__ import annotations

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import shufflenetv2

from workloads.image_workload import ImageWorkload, image_sizes
from workloads.training import Recipe

_REPEATS = (4, 8, 4)


class ShuffleNetV2(ImageWorkload):
    """ShuffleNetV2 x1.0: Ma et al., ECCV '18.

    For pictures of 32x32 the first pooling is left out; ``width`` is the width of the first stage.
    """

    name = "shufflenetv2"
    sizes = image_sizes(
        tiny=(48, Recipe(0.05, warmup_steps=10)),
        small=(116, Recipe(0.05, warmup_steps=50)),
        paper=Recipe(0.5, 1_024, warmup_steps=500),
    )
    published = staticmethod(shufflenetv2.shufflenet_v2_x1_0)

    @staticmethod
    def narrow(width: int, num_classes: int) -> torch.nn.Module:
        """Return the network with its published stages, from this width on."""
        channels = [24, width, 2 * width, 4 * width, 1_024]
        model: torch.nn.Module = shufflenetv2.ShuffleNetV2(list(_REPEATS), channels, num_classes)
        model.maxpool = torch.nn.Identity()
        return model
