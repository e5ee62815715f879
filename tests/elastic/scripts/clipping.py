"""Gradients are clipped by norm, clipped by value, masked and logged before every update."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
largest = 0.0
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
        largest = max(largest, norm.item())
        torch.nn.utils.clip_grad_value_(model.parameters(), 1e-3)
        model[0].weight.grad[0].zero_()
        model[2].bias.grad = model[2].bias.grad * 0.5  # a new tensor in its place
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict() | {"largest": torch.tensor(largest > 0)}, sys.argv[1])
