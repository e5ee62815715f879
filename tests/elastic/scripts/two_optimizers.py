"""One optimizer for the body of a network, and another one for its head."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
body = torch.optim.SGD(model[0].parameters(), lr=1e-2)
head = torch.optim.Adam(model[2].parameters(), lr=1e-3)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, body = elastic.init(model, body)
for _ in loader.epochs():
    for x, y in loader:
        body.zero_grad()
        head.zero_grad()
        error(model(x), y).backward()
        body.step()
        head.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
