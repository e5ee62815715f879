"""Networks of torchvision without a pooling that changes nothing.

VGG and AlexNet pool adaptively to the size that a picture of 224x224 has by then. With such
pictures it is the identity, bit by bit; but its backward pass has no deterministic kernel on
CUDA, where torch therefore refuses it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def without_idle_pool(network: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A builder like ``network``, one of torchvision's, for pictures of 224x224 alone."""

    def build(*, num_classes: int) -> nn.Module:
        model = network(num_classes=num_classes)
        model.avgpool = nn.Identity()
        return model

    return build
