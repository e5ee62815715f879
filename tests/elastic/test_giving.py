"""What a giver of state learns from the updates before somebody joins."""

import socket
from types import SimpleNamespace

import pytest
import torch

from systems.elastic.giving import Giving
from systems.elastic.transfer.training_state import TrainingState
from systems.runtime.reduction import BucketLayout
from tests.elastic.test_member import TOKEN, founder


@pytest.mark.parametrize("clips", [False, True])
def test_an_update_that_changes_gradients_is_given_from_copies(clips):
    """A joiner lost its giver otherwise, whenever an update met gradients that were being sent."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bucket = torch.ones(10)
    model.weight.grad, model.bias.grad = bucket[:8].view(2, 4), bucket[8:]
    layout = BucketLayout((0, 1), 10, torch.float32)
    reduction = SimpleNamespace(buckets=[bucket], layout=[layout])
    giving = Giving(TrainingState(model, optimizer), reduction, TOKEN, founder(0), print)
    with giving.watching():
        if clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # nobody answers, so it does not fail yet
        giving.connect([silent.getsockname()], 2)
        donor = giving.present()
        giving.cancel()
        giving.end()
    assert donor._keeps_gradients is not clips
