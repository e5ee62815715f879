"""A script that fails in its second worker, or in its only one."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for epoch in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        if epoch == 1 and elastic.rank() == elastic.num_workers() - 1:
            raise ValueError("a file that only this worker reads is broken")
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
