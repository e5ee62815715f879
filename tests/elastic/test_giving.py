"""What a giver of state learns from the updates before somebody joins."""

import socket
from types import SimpleNamespace

import pytest
import torch
from msgspec.structs import replace

from systems.elastic.transfer.listing import Listing
from systems.elastic.transfer.training_state import TrainingState
from systems.elastic.worker.send_state import StateSender
from systems.runtime.reduction.ordered import BucketLayout
from tests.elastic.test_leader_client import TOKEN, founder


def giver(transfer="background"):
    """Of a linear model with gradients: the model, its optimizer, and who gives their state."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bucket = torch.ones(10)
    model.weight.grad, model.bias.grad = bucket[:8].view(2, 4), bucket[8:]
    layout = BucketLayout((0, 1), 10, torch.float32)
    reduction = SimpleNamespace(buckets=[bucket], layout=[layout])
    return (
        model,
        optimizer,
        StateSender(
            TrainingState(model, optimizer),
            reduction,
            TOKEN,
            replace(founder(0), transfer=transfer),
            print,
        ),
    )


@pytest.mark.parametrize("clips", [False, True])
def test_an_update_that_changes_gradients_is_given_from_copies(clips):
    """A joiner lost its giver otherwise, whenever an update met gradients that were being sent."""
    model, optimizer, giving = giver()
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


def test_the_state_is_listed_before_anyone_asks(monkeypatch):
    """In the midst of a change the training thread would wait for the one that lists."""
    made = []
    monkeypatch.setattr(Listing, "make", lambda self: made.append(self))
    _, _, giving = giver()
    for _ in range(50):
        assert giving.present() is None
    (listing,) = made
    _, _, other = giver("peer")
    for _ in range(50):
        other.present()
    assert made == [listing], "no other transfer lists the state so"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        giving.connect([silent.getsockname()], 2)
        donor = giving.present()
        giving.cancel()
        giving.end()
    assert donor._listing is listing
