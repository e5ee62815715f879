"""Numbers that a model and the user's own optimizer keep, and a mode that is set once."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic


class Cooling(torch.nn.Module):
    """A network whose outputs are divided by a temperature that falls with every step."""

    def __init__(self):
        """Begin hot."""
        super().__init__()
        self.body = network()
        self.dropout = torch.nn.Dropout(0.5)
        self.temperature = 2.0

    def forward(self, x):
        """Return the outputs at this temperature."""
        if torch.is_grad_enabled():
            self.temperature = 1 + 0.99 * (self.temperature - 1)
        return self.dropout(self.body(x)) / self.temperature


class Decaying(torch.optim.Optimizer):
    """Gradient descent whose steps become shorter, by a counter of its own."""

    def __init__(self, parameters, lr):
        """Args: what is trained, and the length of the first step."""
        super().__init__(parameters, {"lr": lr})
        self.num_updates = 0

    @torch.no_grad()
    def step(self):
        """Update all parameters."""
        self.num_updates += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=group["lr"] / (1 + 0.01 * self.num_updates))


model = Cooling()
data = Points()
optimizer = Decaying(model.parameters(), 0.05)
loader = elastic.batches(data, BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
model.eval()
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
