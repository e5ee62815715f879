"""Batch normalisation with ``norm``, dropout with ``dropout``, which each worker has of its own;
and with ``noise`` gradients with noise, which is the same in all workers."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error

from systems.script import api as elastic


def layers():
    """Return the network of the script."""
    torch.manual_seed(0)
    middle = torch.nn.Dropout(0.3) if "dropout" in sys.argv else torch.nn.Identity()
    if "norm" in sys.argv:
        middle = torch.nn.BatchNorm1d(8, dtype=torch.float64)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8, dtype=torch.float64),
        middle,
        torch.nn.Tanh(),
        torch.nn.Linear(8, 1, dtype=torch.float64),
    )


if __name__ == "__main__":
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
    model, optimizer = elastic.init(model, optimizer)
    for _ in loader.epochs():
        for x, y in loader:
            optimizer.zero_grad()
            error(model(x), y).backward()
            if "noise" in sys.argv:
                for parameter in model.parameters():
                    parameter.grad += 0.1 * torch.randn_like(parameter)
            optimizer.step()
    if elastic.shutdown():
        torch.save(model.state_dict(), sys.argv[1])
