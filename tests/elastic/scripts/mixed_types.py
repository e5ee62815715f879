"""A network of float64 whose last layer is of float32, and an integer buffer."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error

from systems.script import api as elastic


class Mixed(torch.nn.Module):
    """Two layers of different types."""

    def __init__(self):
        """Build them, always alike."""
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 8, dtype=torch.float64)
        self.last = torch.nn.Linear(8, 1)
        self.register_buffer("num_calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        """Return the outputs; counts the calls in training."""
        if self.training:
            self.num_calls += 1
        return self.last(self.first(x).tanh().float()).double()


model = Mixed()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.5)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
