"""Operations of one step at size ``paper``, against what is published (or follows from shape).

Counted by torch on the meta device, where nothing is computed: a multiplication and an addition
are two. A step is a forward and a backward pass; the latter has two products for each one of the
former, but for the first layer's.
"""

import importlib

import pytest
import torch
import yaml
from torch.utils.flop_counter import FlopCounterMode

from tests.backends.world import CONFIGS

FORWARD = {
    # Multiply-adds of one picture, as torchvision's table of its models has them (x 1e9).
    "resnet18": 2 * 1.814e9,
    "resnet50": 2 * 4.089e9,
    "vgg11_bn": 2 * 7.609e9,
    "vgg16": 2 * 15.470e9,
    "vgg19": 2 * 19.632e9,
    "inception3": 2 * 5.713e9,
    "shufflenetv2": 2 * 0.145e9,
    "swin_t": 2 * 4.491e9,
    # No published table counts matrix products alone: BERT-Base by its shape, 12 layers of width
    # 768 over 128 tokens, each token with 12 x 768^2 weights and two products with every other.
    "bert": 128 * 12 * (2 * 12 * 768**2 + 4 * 128 * 768),
}
TOLERANCE = 0.02


def built(name):
    pool = yaml.safe_load((CONFIGS / "workload" / "tiny.yaml").read_text())["pool"]
    module, _, kind = pool[name]["_target_"].rpartition(".")
    workload = getattr(importlib.import_module(module), kind)(size="paper", data="synthetic")
    with torch.device("meta"):
        return workload, workload.build_model(0)


def counted(workload, model, *, backward):
    """Operations of one pass over one sample."""
    batch = {key: value.to("meta") for key, value in workload.samples([0]).items()}
    with FlopCounterMode(display=False) as counter:
        if backward:
            workload.loss(model.train(), batch).backward()
        else:
            with torch.no_grad():
                workload.loss(model.eval(), batch)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", FORWARD)
def test_a_forward_pass_has_the_published_operations(name):
    workload, model = built(name)
    assert counted(workload, model, backward=False) == pytest.approx(FORWARD[name], rel=TOLERANCE)


@pytest.mark.parametrize("name", ["resnet50", "vgg16", "bert"])
def test_a_step_is_three_forward_passes(name):
    workload, model = built(name)
    forward = counted(workload, model, backward=False)
    step = counted(workload, model, backward=True)
    assert 2.9 * forward < step <= 3 * forward
