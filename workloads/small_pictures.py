"""ResNets, VGGs and AlexNet for pictures of 32x32, at any width.

Depth, blocks and their order are the papers', and the blocks are torchvision's own. Only the parts
made for 224x224 are changed. With those parts the last stages would see a single pixel, on which
BatchNorm cannot train with one sample per worker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck
from torchvision.models.vgg import make_layers

_RESNET50_BLOCKS = (3, 4, 6, 3)
_RESNET18_BLOCKS = (2, 2, 2, 2)
_VGG11_LAYERS = (1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M")
_VGG16_LAYERS = (1, 1, "M", 2, 2, "M", 4, 4, 4, "M", 8, 8, 8, "M", 8, 8, 8, "M")
_VGG19_LAYERS = (1, 1, "M", 2, 2, "M", 4, 4, 4, 4, "M", 8, 8, 8, 8, "M", 8, 8, 8, 8, "M")
"""Configurations A, D and E of Simonyan and Zisserman 2015, in units of the first layer's
width."""
_DROPOUT = 0.2
_RESIDUAL_SCALE = 0.25
"""Initial scale of every residual branch. Goyal et al. 2017 (section 5.1) start at 0, for smooth
first steps. With a scale above 0, every parameter also has a gradient from step 0."""


def initialise(model: nn.Module) -> None:
    """Initialise every convolution and linear layer after He et al. (ICCV '15), in order.

    This keeps the scale of the activations. Without it a narrow VGG16 learns nothing for hundreds
    of steps.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _stage(
    block: type[BasicBlock | Bottleneck], inputs: int, width: int, num_blocks: int, stride: int
) -> nn.Sequential:
    outputs = width * block.expansion
    shortcut = None
    if stride > 1 or inputs != outputs:
        shortcut = nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False),
            nn.BatchNorm2d(outputs),
        )
    blocks = [block(inputs, width, stride, shortcut)]
    blocks += [block(outputs, width) for _ in range(num_blocks - 1)]
    for each in blocks:
        last = each.bn3 if isinstance(each, Bottleneck) else each.bn2
        nn.init.constant_(last.weight, _RESIDUAL_SCALE)
    return nn.Sequential(*blocks)


def _resnet(
    block: type[BasicBlock | Bottleneck], stages: Sequence[int], width: int, num_classes: int
) -> nn.Module:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, width, kernel_size=3, stride=2, padding=1, bias=False),
        bn1=nn.BatchNorm2d(width),
        relu=nn.ReLU(inplace=True),
    )
    inputs = width
    for number, num_blocks in enumerate(stages):
        stage_width = width * 2**number
        layers[f"layer{number + 1}"] = _stage(
            block, inputs, stage_width, num_blocks, stride=1 if number == 0 else 2
        )
        inputs = stage_width * block.expansion
    layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(inputs, num_classes)
    model = nn.Sequential(layers)
    initialise(model)
    return model


def resnet18(width: int, num_classes: int) -> nn.Module:
    """Return ResNet18 (He et al. 2016) with a 3x3 stem of stride 2 and no max-pooling.

    Args:
        width: channels of the stem; 64 is the paper's.
        num_classes: outputs.
    """
    return _resnet(BasicBlock, _RESNET18_BLOCKS, width, num_classes)


def resnet50(width: int, num_classes: int) -> nn.Module:
    """Return ResNet50, with the changes of ``resnet18``."""
    return _resnet(Bottleneck, _RESNET50_BLOCKS, width, num_classes)


def _vgg(
    layers: Sequence[str | int], width: int, num_classes: int, *, batch_norm: bool = False
) -> nn.Module:
    channels: list[str | int] = [
        layer if isinstance(layer, str) else layer * width for layer in layers
    ]
    hidden = 8 * width
    model = nn.Sequential(
        OrderedDict[str, nn.Module](
            features=make_layers(channels, batch_norm=batch_norm),
            flatten=nn.Flatten(),
            classifier=_head(hidden, hidden, num_classes),
        )
    )
    initialise(model)
    return model


def _head(inputs: int, hidden: int, num_classes: int) -> nn.Sequential:
    """Return a classifier with two hidden layers and dropout."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(_DROPOUT),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(_DROPOUT),
        nn.Linear(hidden, num_classes),
    )


def vgg11_bn(width: int, num_classes: int) -> nn.Module:
    """Return VGG11 with BatchNorm, with the head of ``vgg16``."""
    return _vgg(_VGG11_LAYERS, width, num_classes, batch_norm=True)


def vgg16(width: int, num_classes: int) -> nn.Module:
    """Return VGG16 (Simonyan and Zisserman 2015) with two hidden layers of 8 * ``width`` units.

    Its dropout is 0.2; the paper's 0.5 is for hidden layers of 4,096.

    Args:
        width: channels of the first layer; 64 is the paper's (its hidden layers have 4,096).
        num_classes: outputs.
    """
    return _vgg(_VGG16_LAYERS, width, num_classes)


def vgg19(width: int, num_classes: int) -> nn.Module:
    """Return VGG19, with the head of ``vgg16``."""
    return _vgg(_VGG19_LAYERS, width, num_classes)


def alexnet(width: int, num_classes: int) -> nn.Module:
    """Return AlexNet (Krizhevsky 2014, in torchvision's widths) with 3x3 kernels throughout.

    Args:
        width: channels of the first layer; torchvision's is 64. The hidden layers have 16 *
            ``width`` units; torchvision's have 4,096.
        num_classes: outputs.
    """

    def convolution(inputs: int, outputs: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inputs * width, outputs * width, 3, padding=1),
            nn.ReLU(inplace=True),
        ]

    model = nn.Sequential(
        OrderedDict[str, nn.Module](
            features=nn.Sequential(
                nn.Conv2d(3, width, 3, stride=2, padding=1),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
                *convolution(1, 3),
                nn.MaxPool2d(2),
                *convolution(3, 6),
                *convolution(6, 4),
                *convolution(4, 4),
                nn.MaxPool2d(2),
            ),
            flatten=nn.Flatten(),
            classifier=_head(4 * 4 * width, 16 * width, num_classes),
        )
    )
    initialise(model)
    return model
