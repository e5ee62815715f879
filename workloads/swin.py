"""Swin-T: image classification with attention in shifted windows."""

from __future__ import annotations

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
import torch
from torchvision.models import swin_transformer

from workloads.image_workload import ImageWorkload, image_sizes
from workloads.training import Recipe

_DEPTHS = (2, 2, 6, 2)
_HEADS = (3, 6, 12, 24)


class SwinT(ImageWorkload):
    """Swin-T: Liu et al., ICCV '21.

    For pictures of 32x32, patches are 2x2 and windows 4x4; ``width`` is the width of the embedding.
    """

    name = "swin_t"
    sizes = image_sizes(
        tiny=(24, Recipe(1e-3, warmup_steps=20)),
        small=(96, Recipe(5e-4, warmup_steps=100)),
        paper=Recipe(1e-3, 1_024, warmup_steps=2_000),
    )
    published = staticmethod(swin_transformer.swin_t)

    @staticmethod
    def narrow(width: int, num_classes: int) -> torch.nn.Module:
        """Return the network with its published stages, over smaller patches and windows."""
        model: torch.nn.Module = swin_transformer.SwinTransformer(
            patch_size=[2, 2],
            embed_dim=width,
            depths=list(_DEPTHS),
            num_heads=list(_HEADS),
            window_size=[4, 4],
            stochastic_depth_prob=0.1,
            num_classes=num_classes,
        )
        return model

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam with decoupled weight decay 0.05, as in the paper."""
        return torch.optim.AdamW(
            model.parameters(), lr=self._recipe.learning_rate, weight_decay=0.05
        )
