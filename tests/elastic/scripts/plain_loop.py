"""A loop as in every tutorial."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        loss = error(model(x), y)
        loss.backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
