"""Weights that are clamped after every update; with ``told`` init knows of it."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer, changes_parameters="told" in sys.argv)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in model.parameters():
                if "data" in sys.argv:
                    parameter.data.clamp_(-0.3, 0.3)
                else:
                    parameter.clamp_(-0.3, 0.3)
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
