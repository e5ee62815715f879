"""Looking for sparse gradients, in the model's own process."""

import pytest
import torch
from torch import nn

from systems.runtime.reduction.refused_modules import RefusedModuleError, refusing_sparse_gradients


def a_model():
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def test_parameters_are_left_as_they_were():
    model, seen = a_model(), []
    kept = model[1].weight
    kept.register_hook(lambda gradient: seen.append(gradient.shape))
    with refusing_sparse_gradients(model):
        model(torch.ones(1, 3)).sum().backward()
    hooked = {name for name, one in model.named_parameters() if one._backward_hooks is not None}
    assert hooked == {"1.weight"}
    model(torch.ones(1, 3)).sum().backward()
    assert seen == [kept.shape] * 2


def test_a_hook_that_comes_meanwhile_stays():
    model, seen = a_model(), []
    with refusing_sparse_gradients(model):
        model[0].bias.register_hook(lambda gradient: seen.append(gradient.shape))
    model(torch.ones(1, 3)).sum().backward()
    assert seen == [model[0].bias.shape]


def test_a_sparse_gradient_is_refused_and_the_model_can_be_used_after_that():
    table = nn.Embedding(5, 2, sparse=True)
    refused = pytest.raises(RefusedModuleError, match="gradient of weight is sparse")
    with refused, refusing_sparse_gradients(table):
        table(torch.tensor([1, 3])).sum().backward()
    assert table.weight._backward_hooks is None
    table(torch.tensor([1, 3])).sum().backward()
    assert table.weight.grad.is_sparse
