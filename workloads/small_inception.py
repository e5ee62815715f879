"""InceptionV3 for pictures of 32x32, at any width, built of the paper's blocks.

Its stages see 8x8, 4x4 and 2x2 pixels in place of 35x35, 17x17 and 8x8. BatchNorm and ReLU follow
every convolution. There is no auxiliary classifier.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from workloads.small_pictures import initialise

_STEM = 32
"""Channels of the paper's first layer; they define the unit of ``width``."""
Kernel = tuple[int, int]
Chain = Sequence[tuple[int, Kernel]]
"""Consecutive convolutions: output channels at full width, and the kernel."""

_ONE: Kernel = (1, 1)
_THREE: Kernel = (3, 3)
_FIVE: Kernel = (5, 5)
_WIDE: Kernel = (1, 7)
_TALL: Kernel = (7, 1)


class _Convolution(nn.Sequential):
    """A convolution that keeps the size (or halves it), BatchNorm and ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: Kernel, stride: int = 1) -> None:
        padding = (kernel[0] // 2, kernel[1] // 2)
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )


class _Branches(nn.Module):
    """Parallel chains whose outputs are concatenated."""

    def __init__(self, branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(images) for branch in self.branches], dim=1)


def small_inception(width: int, num_classes: int) -> nn.Module:
    """Return InceptionV3 (Szegedy et al. 2016, table 1) with ``width`` channels in the stem.

    Args:
        width: a multiple of 4, so that every branch has a channel; 32 is the paper's.
        num_classes: outputs.
    """
    build = _Builder(width)
    stem: list[nn.Module] = [
        _Convolution(3, width, _THREE, stride=2),
        _Convolution(width, width, _THREE),
        _Convolution(width, 2 * width, _THREE),
        nn.MaxPool2d(3, stride=2, padding=1),
        _Convolution(2 * width, build.scaled(80), _ONE),
        _Convolution(build.scaled(80), build.scaled(192), _THREE),
    ]
    build.channels = build.scaled(192)
    blocks = [
        *(build.figure5(pooled) for pooled in (32, 64, 64)),
        build.halving([(384, _THREE)], [(64, _ONE), (96, _THREE), (96, _THREE)]),
        *(build.figure6(inner) for inner in (128, 160, 160, 192)),
        build.halving(
            [(192, _ONE), (320, _THREE)],
            [(192, _ONE), (192, _WIDE), (192, _TALL), (192, _THREE)],
        ),
        build.figure7(),
        build.figure7(),
    ]
    model = nn.Sequential(
        *stem,
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(build.channels, num_classes),
    )
    initialise(model)
    return model


class _Builder:
    """Builder of consecutive blocks; it tracks the number of channels."""

    def __init__(self, width: int) -> None:
        self.channels = 0
        self._width = width

    def scaled(self, channels: int) -> int:
        """Scale a number of channels of the paper to this width."""
        return max(1, channels * self._width // _STEM)

    def figure5(self, pooled: int) -> nn.Module:
        """Build the paper's first kind of block, in which smaller convolutions replace a 5x5."""
        return self._block(
            [
                [(64, _ONE)],
                [(48, _ONE), (64, _FIVE)],
                [(64, _ONE), (96, _THREE), (96, _THREE)],
            ],
            pooled,
        )

    def figure6(self, inner: int) -> nn.Module:
        """Build the second kind of block, with a 7x7 split into rows and columns."""
        return self._block(
            [
                [(192, _ONE)],
                [(inner, _ONE), (inner, _WIDE), (192, _TALL)],
                [(inner, _ONE), (inner, _TALL), (inner, _WIDE), (inner, _TALL), (192, _WIDE)],
            ],
            192,
        )

    def figure7(self) -> nn.Module:
        """Build the third kind of block, whose branches end in a row and a column in parallel."""
        inputs = self.channels
        split = [(384, (1, 3)), (384, (3, 1))]

        def ending(chain: Chain) -> nn.Module:
            first, last = self._chain(inputs, chain)
            ends = [self._chain(last, [end])[0] for end in split]
            return nn.Sequential(first, _Branches(ends))

        branches = [
            self._chain(inputs, [(320, _ONE)])[0],
            ending([(384, _ONE)]),
            ending([(448, _ONE), (384, _THREE)]),
            self._pooled(inputs, 192),
        ]
        self.channels = self.scaled(320) + 4 * self.scaled(384) + self.scaled(192)
        return _Branches(branches)

    def halving(self, *chains: Chain) -> nn.Module:
        """Build a block of convolutions and pooling that halves the size."""
        inputs = self.channels
        branches = [self._chain(inputs, chain, stride=2)[0] for chain in chains]
        self.channels += sum(self.scaled(chain[-1][0]) for chain in chains)
        return _Branches([*branches, nn.MaxPool2d(3, stride=2, padding=1)])

    def _block(self, chains: Sequence[Chain], pooled: int) -> nn.Module:
        inputs = self.channels
        branches = [self._chain(inputs, chain)[0] for chain in chains]
        self.channels = self.scaled(pooled) + sum(self.scaled(chain[-1][0]) for chain in chains)
        return _Branches([*branches, self._pooled(inputs, pooled)])

    def _pooled(self, inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.AvgPool2d(3, stride=1, padding=1), _Convolution(inputs, self.scaled(outputs), _ONE)
        )

    def _chain(self, inputs: int, chain: Chain, stride: int = 1) -> tuple[nn.Module, int]:
        """Return consecutive convolutions, the last with the stride, and their output channels."""
        layers = []
        for number, (outputs, kernel) in enumerate(chain, 1):
            is_last = number == len(chain)
            layers.append(
                _Convolution(inputs, self.scaled(outputs), kernel, stride if is_last else 1)
            )
            inputs = self.scaled(outputs)
        return nn.Sequential(*layers), inputs
