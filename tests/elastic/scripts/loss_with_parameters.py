"""A loss that learns its weight; with ``module`` as a part of the model."""

import sys

import torch
from points import BATCH, EPOCHS, Points, network

from systems.script import api as elastic


class Weighted(torch.nn.Module):
    """A squared error with a learned precision."""

    def __init__(self, body=None):
        """Args: what makes the outputs; None: the caller does."""
        super().__init__()
        self.body = body
        self.log_precision = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x, y):
        """Return the loss of outputs, or of points if there is a body."""
        outputs = x if self.body is None else self.body(x)
        squares = (outputs.squeeze(1) - y).square().mean()
        return squares * self.log_precision.exp() - self.log_precision / 2


is_module = "module" in sys.argv
body = network()
criterion = Weighted(body if is_module else None)
parameters = (
    [*criterion.parameters()] if is_module else [*body.parameters(), *criterion.parameters()]
)
optimizer = torch.optim.SGD(parameters, lr=1e-2)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS, inputs=lambda batch: batch)
model, optimizer = elastic.init(criterion if is_module else body, optimizer)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x, y) if is_module else criterion(model(x), y)
        loss.backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(criterion.state_dict() | body.state_dict(), sys.argv[1])
