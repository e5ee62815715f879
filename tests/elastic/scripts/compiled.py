"""A compiled model; with ``after`` compiled once it is shared."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

is_after = "after" in sys.argv
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
if not is_after:
    model = torch.compile(model, backend="eager")
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
if is_after:
    model = torch.compile(model, backend="eager")
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
