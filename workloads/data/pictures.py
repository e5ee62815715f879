"""Operations on pictures that give each picture the same bits in any batch."""

from __future__ import annotations

import torch


def enlarged(images: torch.Tensor, factor: int) -> torch.Tensor:
    """Return pictures (n, channels, height, width) with every pixel repeated ``factor`` times."""
    if factor == 1:
        return images
    return images.repeat_interleave(factor, dim=-2).repeat_interleave(factor, dim=-1)


def enlarged_to(images: torch.Tensor, side: int) -> torch.Tensor:
    """Return square pictures with this side, made by repeating every pixel.

    Excess rows and columns at the bottom and the right are cut off.
    """
    factor = -(-side // images.shape[-1])
    return enlarged(images, factor)[..., :side, :side].contiguous()


def normalised(values: torch.Tensor) -> torch.Tensor:
    """Return bytes 0..255 of colour pictures as floats near 0 with a spread near 1.

    All channels share one mean and deviation: models are trained from scratch, so the constants of
    published weights are not needed.
    """
    return (values.to(torch.float32) - 118.0) / 62.0
