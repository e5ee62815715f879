"""ResNet50 and VGG16 for pictures of 32x32, at any width.

Depth, blocks and their order are the papers' and the blocks are torchvision's own; only what
is made for 224x224 gives way. Made for those, the last stages would see a single pixel, on
which BatchNorm cannot train with one sample per worker.
"""

from __future__ import annotations

from collections import OrderedDict

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
from torch import nn
from torchvision.models.resnet import Bottleneck
from torchvision.models.vgg import make_layers

_RESNET50_BLOCKS = (3, 4, 6, 3)
_VGG16_LAYERS = (1, 1, "M", 2, 2, "M", 4, 4, 4, "M", 8, 8, 8, "M", 8, 8, 8, "M")
"""Configuration D of Simonyan and Zisserman 2015, in units of the first layer's width."""
_DROPOUT = 0.2
_RESIDUAL_SCALE = 0.25
"""Of every residual branch at the start. Goyal et al. 2017 (section 5.1) start at 0 for the
same reason, smooth first steps; above 0, every parameter has a gradient from step 0."""


def _initialise(model: nn.Module) -> None:
    """He et al.'s initialisation (ICCV '15) of every convolution and linear layer, in order.

    It keeps the scale of the activations, without which a narrow VGG16 does not start to
    learn for hundreds of steps.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _stage(inputs: int, width: int, num_blocks: int, stride: int) -> nn.Sequential:
    outputs = width * Bottleneck.expansion
    shortcut = nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False),
        nn.BatchNorm2d(outputs),
    )
    blocks = [Bottleneck(inputs, width, stride, shortcut)]
    blocks += [Bottleneck(outputs, width) for _ in range(num_blocks - 1)]
    for block in blocks:
        nn.init.constant_(block.bn3.weight, _RESIDUAL_SCALE)
    return nn.Sequential(*blocks)


def resnet50(width: int, num_classes: int) -> nn.Module:
    """ResNet50 (He et al. 2016) with a 3x3 stem of stride 2 and no max-pooling.

    Args:
        width: channels of the stem; 64 is the paper's.
        num_classes: outputs.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, width, kernel_size=3, stride=2, padding=1, bias=False),
        bn1=nn.BatchNorm2d(width),
        relu=nn.ReLU(inplace=True),
    )
    inputs = width
    for number, num_blocks in enumerate(_RESNET50_BLOCKS):
        stage_width = width * 2**number
        layers[f"layer{number + 1}"] = _stage(
            inputs, stage_width, num_blocks, stride=1 if number == 0 else 2
        )
        inputs = stage_width * Bottleneck.expansion
    layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(inputs, num_classes)
    model = nn.Sequential(layers)
    _initialise(model)
    return model


def vgg16(width: int, num_classes: int) -> nn.Module:
    """VGG16 (Simonyan and Zisserman 2015) with a head of two hidden layers of 8 widths.

    Its dropout is 0.2; the paper's 0.5 is for hidden layers of 4,096.

    Args:
        width: channels of the first layer; 64 is the paper's (its hidden layers have 4,096).
        num_classes: outputs.
    """
    channels: list[str | int] = [
        layer if isinstance(layer, str) else layer * width for layer in _VGG16_LAYERS
    ]
    hidden = 8 * width
    model = nn.Sequential(
        OrderedDict[str, nn.Module](
            features=make_layers(channels),
            flatten=nn.Flatten(),
            classifier=nn.Sequential(
                nn.Linear(hidden, hidden),
                nn.ReLU(inplace=True),
                nn.Dropout(_DROPOUT),
                nn.Linear(hidden, hidden),
                nn.ReLU(inplace=True),
                nn.Dropout(_DROPOUT),
                nn.Linear(hidden, num_classes),
            ),
        )
    )
    _initialise(model)
    return model


def num_parameters(model: nn.Module) -> int:
    """Parameters of a model, each counted once however often it is used."""
    return sum(parameter.numel() for parameter in model.parameters())
