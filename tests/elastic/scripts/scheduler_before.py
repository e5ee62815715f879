"""Schedulers made before init: a warm-up and a decay, stepped after every batch."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network
from torch.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR

from systems.script import api as elastic

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
warm_up = LinearLR(optimizer, start_factor=0.01, total_iters=20)
schedule = SequentialLR(optimizer, [warm_up, ExponentialLR(optimizer, 0.995)], milestones=[20])
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        schedule.step()
if elastic.shutdown():
    lr = torch.tensor(schedule.get_last_lr(), dtype=torch.float64)
    torch.save(model.state_dict() | {"lr": lr}, sys.argv[1])
