"""A pretrained layer is frozen; with ``thaw`` it is trained from the third epoch on."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
model[0].requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for epoch in loader.epochs():
    if "thaw" in sys.argv and epoch == 2:
        model[0].requires_grad_(True)
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
