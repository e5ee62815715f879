"""Networks of torchvision without a pooling layer that changes nothing.

VGG and AlexNet pool adaptively to the size that a picture of 224x224 already has at that layer. For
such pictures the pooling is the identity, bit by bit. Its backward pass has no deterministic kernel
on CUDA, so torch refuses it there when determinism is required.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def without_idle_pool(network: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Return a builder like torchvision's ``network``, but without the pooling layer and only for
    pictures of 224x224."""

    def build(*, num_classes: int) -> nn.Module:
        model = network(num_classes=num_classes)
        model.avgpool = nn.Identity()
        return model

    return build
