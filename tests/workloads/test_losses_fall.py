"""Every workload learns its task at its tiny size, on one core, in a few seconds.

Held-out accuracy by guessing is 0.1 for digits and pictures, 0.25 for texts and below 0.03
for translations. Margins are wide: seeds and libraries move these numbers by a few percent.
"""

import importlib
from statistics import fmean

import numpy as np
import pytest
import torch

BATCH = 32


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(target, num_steps, **options):
    """Losses of each step, and the evaluation after the last."""
    module, _, kind = target.rpartition(".")
    workload = getattr(importlib.import_module(module), kind)(size="tiny", **options)
    model = workload.build_model(seed=0).train()
    optimizer = workload.build_optimizer(model)
    ids = np.random.default_rng(0).integers(workload.num_samples, size=(num_steps, BATCH))
    losses = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for step in range(num_steps):
            optimizer.zero_grad()
            loss = workload.loss(model, workload.samples(ids[step].tolist()))
            loss.backward()
            workload.update(optimizer, BATCH, step)
            losses.append(loss.item())
    return losses, workload.evaluate(model)


@pytest.mark.parametrize(
    ("target", "data", "num_steps", "remaining", "accuracy"),
    [
        ("workloads.toy.Toy", "digits", 60, 0.5, 0.8),
        ("workloads.vision.ResNet50", "digits", 60, 0.5, 0.75),
        ("workloads.vision.ResNet50", "synthetic", 50, 0.5, 0.75),
        ("workloads.vision.VGG16", "digits", 120, 0.6, 0.6),
        ("workloads.vision.VGG16", "synthetic", 160, 0.6, 0.6),
        ("workloads.language.BERT", "synthetic", 120, 0.5, 0.75),
        ("workloads.translation.Transformer", "synthetic", 250, 0.6, 0.5),
    ],
)
def test_loss_falls_and_held_out_accuracy_rises(target, data, num_steps, remaining, accuracy):
    losses, evaluation = trained(target, num_steps, data=data)
    assert fmean(losses[-10:]) < remaining * fmean(losses[:10])
    assert evaluation["accuracy"] > accuracy
