"""InceptionV3: image classification over branches of different kernels."""

from __future__ import annotations

from functools import partial

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import inception

from harness.contracts.workload import Batch
from workloads.image_workload import ImageWorkload, image_sizes
from workloads.small_inception import small_inception
from workloads.training import Recipe

_AUXILIARY = 0.4
"""Weight of the auxiliary classifier's loss, as in torchvision's recipe."""


class InceptionV3(ImageWorkload):
    """InceptionV3: Szegedy et al., CVPR '16. Size ``paper`` has the auxiliary classifier."""

    name = "inception3"
    sizes = image_sizes(
        tiny=(8, Recipe(0.02, warmup_steps=10)),
        small=(32, Recipe(0.02, warmup_steps=50)),
        paper=Recipe(0.045, 32, warmup_steps=500),
        paper_side=299,
    )
    narrow = staticmethod(small_inception)
    published = staticmethod(partial(inception.inception_v3, init_weights=True))

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross entropy, nats, plus 0.4 of the auxiliary classifier's (if any)."""
        scores = model(batch["image"])
        cross_entropy = torch.nn.functional.cross_entropy
        if isinstance(scores, torch.Tensor):
            return cross_entropy(scores, batch["label"])
        main, auxiliary = scores
        return cross_entropy(main, batch["label"]) + _AUXILIARY * cross_entropy(
            auxiliary, batch["label"]
        )
