"""A state that another's was half written over is put back, and trained on with the same bits."""

import copy

import pytest
import torch
from torch import nn

from systems.elastic.transfer.kept_state import kept
from systems.elastic.transfer.training_state import TrainingState
from systems.runtime.wire.groups import GroupLost

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def program(optimizer):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    return model, OPTIMIZERS[optimizer](model.parameters())


def train(model, optimizer, num_steps, seed):
    rng = torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        optimizer.zero_grad()
        model(torch.randn(6, 4, generator=rng)).square().sum().backward()
        optimizer.step()


def bits(model, optimizer):
    return copy.deepcopy((model.state_dict(), optimizer.state_dict()))


def take_half(program_, state):
    with kept(state):
        state.optimizer.param_groups[0]["lr"] = 7.0
        train(*program_, 1, seed=9)  # changes every tensor, and makes an optimizer's first ones
        state.optimizer.state.pop(state.parameters[0])
        raise GroupLost("its donor has died")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("num_steps", [0, 3])
def test_what_was_written_over_is_put_back(optimizer, num_steps):
    twin, program_ = program(optimizer), program(optimizer)
    for each in (twin, program_):
        train(*each, num_steps, seed=1)
    state = TrainingState(*program_)
    with pytest.raises(GroupLost):
        take_half(program_, state)
    train(*twin, 2, seed=2)
    train(*program_, 2, seed=2)
    expected, found = bits(*twin), bits(*program_)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    assert found[1]["param_groups"] == expected[1]["param_groups"]
    torch.testing.assert_close(found[1]["state"], expected[1]["state"], rtol=0, atol=0)


def test_what_came_whole_stays():
    program_ = program("sgd")
    state = TrainingState(*program_)
    with kept(state):
        train(*program_, 1, seed=9)
    assert state.optimizer.state
