"""Every workload learns its task at its tiny size, on one core, in seconds.

The long tests train until the task is learnt; where that takes long, a quick one sees that a
batch can be, for every kind of data.

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


def trained(target, batches, **options):
    """Losses of each step, and the evaluation after the last."""
    module, _, kind = target.rpartition(".")
    workload = getattr(importlib.import_module(module), kind)(size="tiny", **options)
    model = workload.build_model(seed=0).train()
    optimizer = workload.build_optimizer(model)
    losses = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for step, ids in enumerate(batches(workload.num_samples)):
            optimizer.zero_grad()
            loss = workload.loss(model, workload.samples(ids))
            loss.backward()
            workload.update(optimizer, len(ids), step)
            losses.append(loss.item())
    return losses, workload, model


def drawn(num_steps):
    """Batches from all over the samples."""
    return lambda num_samples: (
        np.random.default_rng(0).integers(num_samples, size=(num_steps, BATCH)).tolist()
    )


def the_same(num_steps):
    """A small batch again and again."""
    return lambda num_samples: [list(range(16))] * num_steps


MORE = [
    ("workloads.residual.ResNet18", "digits", 60, 0.5, "accuracy", 0.75),
    ("workloads.plain_convolutions.VGG11BN", "digits", 60, 0.5, "accuracy", 0.7),
    ("workloads.plain_convolutions.VGG19", "digits", 250, 0.7, "accuracy", 0.5),
    ("workloads.plain_convolutions.AlexNet", "digits", 150, 0.5, "accuracy", 0.7),
    ("workloads.inception.InceptionV3", "digits", 120, 0.5, "accuracy", 0.6),
    ("workloads.shufflenet.ShuffleNetV2", "digits", 80, 0.5, "accuracy", 0.7),
    ("workloads.swin.SwinT", "digits", 120, 0.6, "accuracy", 0.6),
    ("workloads.gpt2.GPT2", "synthetic", 200, 0.6, "accuracy", 0.6),
    ("workloads.question_answering.BertQA", "synthetic", 150, 0.3, "exact_match", 0.8),
    ("workloads.question_answering.Electra", "synthetic", 150, 0.3, "exact_match", 0.8),
    ("workloads.recommendation.NeuMF", "synthetic", 2000, 0.5, "hit_ratio", 0.5),
    ("workloads.speech.DeepSpeech2", "synthetic", 150, 0.5, "letter_error_rate", 0.5),
    ("workloads.detection.YOLOv3", "synthetic", 300, 0.2, "mean_average_precision", 0.05),
]
SOON = ("ResNet18", "VGG11BN", "AlexNet")
"""Half a minute each or less. The others are for the soak: that their losses fall is seen in
test_every_workload_trains.py, too."""
TOY = ("workloads.toy.Toy", "digits", 60, 0.5, 0.8)
# Thirty steps on a small batch teach it little more than how often each label occurs.
BERT = ("workloads.language.BERT", "synthetic", 120, 0.5, 0.75)
OTHERS = [
    ("workloads.vision.ResNet50", "digits", 60, 0.5, 0.75),
    ("workloads.vision.ResNet50", "synthetic", 50, 0.5, 0.75),
    ("workloads.vision.VGG16", "digits", 120, 0.6, 0.6),
    ("workloads.vision.VGG16", "synthetic", 160, 0.6, 0.6),
    ("workloads.translation.Transformer", "synthetic", 250, 0.6, 0.5),
]


@pytest.mark.parametrize(
    ("target", "data", "num_steps", "remaining", "accuracy"),
    [
        TOY,
        *(
            pytest.param(*values, marks=pytest.mark.long if steps <= 120 else pytest.mark.soak)
            for values in (BERT, *OTHERS)
            for steps in values[2:3]
        ),
    ],
)
def test_loss_falls_and_held_out_accuracy_rises(target, data, num_steps, remaining, accuracy):
    losses, workload, model = trained(target, drawn(num_steps), data=data)
    assert fmean(losses[-10:]) < remaining * fmean(losses[:10])
    assert workload.evaluate(model)["accuracy"] > accuracy


@pytest.mark.parametrize(
    ("target", "data"),
    [
        pytest.param(*values[:2], marks=pytest.mark.long if "vision" in values[0] else ())
        for values in OTHERS
        if values[1] == "synthetic"
    ],
)
def test_a_batch_that_is_seen_again_is_learnt(target, data):
    losses, _, _ = trained(target, the_same(30), data=data)
    assert fmean(losses[-5:]) < 0.85 * fmean(losses[:5])


@pytest.mark.parametrize(
    ("target", "data", "num_steps", "remaining", "metric", "bound"),
    [
        pytest.param(*values, id=name, marks=pytest.mark.long if name in SOON else pytest.mark.soak)
        for values in MORE
        for name in [values[0].rpartition(".")[2]]
    ],
)
def test_every_task_is_learnt(target, data, num_steps, remaining, metric, bound):
    losses, workload, model = trained(target, drawn(num_steps), data=data)
    assert fmean(losses[-10:]) < remaining * fmean(losses[:10])
    value = workload.evaluate(model)[metric]
    assert value < bound if metric.endswith("error_rate") else value > bound
