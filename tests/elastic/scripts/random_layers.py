"""Batch normalisation with ``norm``, dropout with ``dropout``: each worker has its own."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error

from systems.elastic import api as elastic


def layers():
    """Return the network of the script."""
    torch.manual_seed(0)
    is_norm = "norm" in sys.argv
    middle = torch.nn.BatchNorm1d(8, dtype=torch.float64) if is_norm else torch.nn.Dropout(0.3)
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
            optimizer.step()
    if elastic.shutdown():
        torch.save(model.state_dict(), sys.argv[1])
