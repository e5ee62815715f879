"""A file for every epoch, and the best model so far."""

import copy
import math
import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic


class Best:
    """The smallest loss so far, and the model that had it."""

    def __init__(self):
        """Begin with nothing."""
        self.loss, self.model = math.inf, None

    def state_dict(self):
        """Return both as plain values."""
        return {"loss": self.loss, "model": self.model}

    def load_state_dict(self, state):
        """Take what ``state_dict`` returned."""
        self.loss, self.model = state["loss"], state["model"]


model = network()
data = Points()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = elastic.batches(data, BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
best = Best()
elastic.carry(best=best)
for epoch in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        loss = error(model(data.x), data.y).item()
    if loss < best.loss:
        best.loss, best.model = loss, copy.deepcopy(dict(model.state_dict()))
    if elastic.is_first():
        torch.save(model.state_dict(), f"{sys.argv[1]}.epoch{epoch}")
if elastic.shutdown():
    torch.save(best.model | {"loss": torch.tensor(best.loss)}, sys.argv[1])
