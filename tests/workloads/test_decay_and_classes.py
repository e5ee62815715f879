"""The learning rate's decay by epochs, and the accuracy of every class, counted by hand."""

import pytest
import torch
from torch import nn

from workloads.data.base import SampleSet
from workloads.toy import Toy
from workloads.training import MOST_CLASSES, Recipe, evaluate_classifier


def test_the_rate_falls_by_gamma_with_every_decay_and_by_nothing_else():
    recipe = Recipe(0.8, reference_batch=32, gamma=0.5, decay_epochs=2.0)
    rates = [recipe.rate(32, 0, epochs) for epochs in (0.0, 1.99, 2.0, 3.99, 4.0)]
    assert rates == [0.8, 0.8, 0.4, 0.4, 0.2]
    assert recipe.rate(16, 10, 2.0) == 0.2


def test_epochs_are_those_of_the_samples_consumed():
    workload = Toy(gamma=0.1, decay_epochs=1.0, learning_rate=1.0)
    model = workload.build_model(0)
    optimizer = workload.build_optimizer(model)

    def rate(step, samples=None):
        workload.update(optimizer, 32, step, samples)
        return optimizer.param_groups[0]["lr"]

    count = workload.num_samples
    assert rate(0, count - 1) == 1.0
    assert rate(0, count) == pytest.approx(0.1)
    assert rate(count // 32) == 1.0  # step times batch, where nothing else is said
    assert rate(count // 32 + 1) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"gamma": 0.5}, "give both, or neither"),
        ({"decay_epochs": 2.0}, "give both, or neither"),
        ({"gamma": 1.5, "decay_epochs": 2.0}, "gamma is 1.5; it must be above 0 and at most 1"),
        ({"gamma": 0.5, "decay_epochs": 0.0}, "decay_epochs is 0.0; it must be finite and > 0"),
    ],
)
def test_decays_that_cannot_be(options, fact):
    with pytest.raises(ValueError, match=fact):
        Toy(**options)


class Four(SampleSet):
    """Four samples of the classes 0, 0, 1 and 3; the model takes all for class 0 but the last."""

    def __len__(self):
        return 4

    def samples(self, ids):
        label = torch.tensor([0, 0, 1, 3])[list(ids)]
        score = torch.eye(4)[torch.tensor([0, 2, 0, 3])[list(ids)]]
        return {"score": score, "label": label}


def test_the_accuracy_of_every_class_that_occurs():
    model = nn.Linear(1, 1)

    def logits(model, batch):
        return batch["score"]

    found = evaluate_classifier(model, logits, Four(), None, 4)
    assert found["accuracy"] == 0.5
    classes = {name: value for name, value in found.items() if "class" in name}
    assert classes == {"accuracy_class_0": 0.5, "accuracy_class_1": 0.0, "accuracy_class_3": 1.0}
    assert next(iter(found)) == "accuracy"
    plain = evaluate_classifier(model, logits, Four(), None, MOST_CLASSES + 1)
    assert set(plain) == {"accuracy", "loss", "evaluated_samples"}
