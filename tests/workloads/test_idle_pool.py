"""Networks without the pooling that changes nothing are those of torchvision, bit by bit."""

import pytest
import torch

import workloads.operators  # noqa: F401  (must run before torchvision is imported)

# isort: split
from torchvision.models import alexnet, vgg11_bn, vgg16, vgg19

from workloads.plain_convolutions import VGG11BN, VGG19, AlexNet
from workloads.vision import VGG16

NETWORKS = [(AlexNet, alexnet), (VGG11BN, vgg11_bn), (VGG16, vgg16), (VGG19, vgg19)]


@pytest.mark.parametrize(("workload", "network"), NETWORKS)
def test_pictures_of_the_published_size_have_what_it_pools_to(workload, network):
    side = workload.sizes["paper"].image_size
    with torch.device("meta"):
        theirs, ours = network(num_classes=2), workload.published(num_classes=2)
        reached = theirs.features(torch.empty(1, 3, side, side)).shape
    assert reached[2:] == theirs.avgpool.output_size
    assert not any(isinstance(module, torch.nn.AdaptiveAvgPool2d) for module in ours.modules())
    assert [*ours.state_dict()] == [*theirs.state_dict()]


def test_scores_and_gradients_have_the_same_bits():
    picture, found = torch.randn(2, 3, 224, 224), []
    for build in (alexnet, AlexNet.published):
        torch.manual_seed(3)
        model = build(num_classes=5).eval()
        scores = model(picture)
        scores.square().sum().backward()
        found.append([scores, *(parameter.grad for parameter in model.parameters())])
    theirs, ours = found
    assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))
