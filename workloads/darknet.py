"""Network of YOLOv3: a residual backbone and outputs at three scales."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

_SLOPE = 0.1
ANCHORS_A_SCALE = 3


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(_SLOPE, inplace=True),
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(channels, channels // 2, 1), _convolution(channels // 2, channels, 3)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = images + self.body(images)
        return added


class _Neck(nn.Module):
    """Five convolutions, whose output goes to a prediction and to the next finer scale."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(inputs, width, 1),
            _convolution(width, 2 * width, 3),
            _convolution(2 * width, width, 1),
            _convolution(width, 2 * width, 3),
            _convolution(2 * width, width, 1),
        )
        self.predict = nn.Sequential(
            _convolution(width, 2 * width, 3), nn.Conv2d(2 * width, outputs, 1)
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(images)
        return features, self.predict(features)


class YoloV3Network(nn.Module):
    """Darknet with a feature pyramid: Redmon and Farhadi, arXiv:1804.02767, section 2.

    Args:
        width: channels of the first layer; 32 is the paper's.
        repeats: residual blocks of the five stages; the paper's are 1, 2, 8, 8, 4.
        num_classes: number of classes of objects.
    """

    def __init__(self, width: int, repeats: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.stem = _convolution(3, width, 3)
        stages = []
        channels = width
        for count in repeats:
            stages.append(
                nn.Sequential(
                    _convolution(channels, 2 * channels, 3, stride=2),
                    *(_Residual(2 * channels) for _ in range(count)),
                )
            )
            channels *= 2
        self.stages = nn.ModuleList(stages)
        outputs = ANCHORS_A_SCALE * (5 + num_classes)
        self.coarse = _Neck(channels, channels // 2, outputs)
        self.to_middle = _convolution(channels // 2, channels // 4, 1)
        self.middle = _Neck(channels // 4 + channels // 2, channels // 4, outputs)
        self.to_fine = _convolution(channels // 4, channels // 8, 1)
        self.fine = _Neck(channels // 8 + channels // 4, channels // 8, outputs)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return raw outputs, coarse to fine; each (n, 3, side, side, 5 + classes)."""
        features = self.stem(images)
        kept = []
        for stage in self.stages:
            features = stage(features)
            kept.append(features)
        features, coarse = self.coarse(kept[-1])
        features = nn.functional.interpolate(self.to_middle(features), scale_factor=2.0)
        features, middle = self.middle(torch.cat([features, kept[-2]], dim=1))
        features = nn.functional.interpolate(self.to_fine(features), scale_factor=2.0)
        _, fine = self.fine(torch.cat([features, kept[-3]], dim=1))
        return tuple(self._grid(scale) for scale in (coarse, middle, fine))

    def _grid(self, outputs: torch.Tensor) -> torch.Tensor:
        count, _, height, width = outputs.shape
        grid = outputs.view(count, ANCHORS_A_SCALE, 5 + self.num_classes, height, width)
        return grid.permute(0, 1, 3, 4, 2)
