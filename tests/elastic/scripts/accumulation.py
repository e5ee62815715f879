"""Gradients of several batches make one update."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for number, (x, y) in enumerate(loader):
        (error(model(x), y) / 4).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
