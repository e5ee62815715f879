"""Schedulers made after init: steps of the learning rate by epoch, and by the loss."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network
from torch.optim.lr_scheduler import MultiStepLR, ReduceLROnPlateau

from systems.script import api as elastic

model = network()
data = Points()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loader = elastic.batches(data, BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
schedule = MultiStepLR(optimizer, milestones=[2, 5, 11], gamma=0.5)
plateau = ReduceLROnPlateau(optimizer, patience=0, threshold=0.2)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
    schedule.step()
    with torch.no_grad():
        plateau.step(error(model(data.x), data.y))
if elastic.shutdown():
    lr = torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64)
    torch.save(model.state_dict() | {"lr": lr}, sys.argv[1])
