"""Automatic mixed precision with a gradient scaler that does everything itself."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network(torch.float32)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
# Once in every epoch the gradients of one worker are not finite: all skip that update.
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=6)
loader = elastic.batches(Points(torch.float32, is_bad=True), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            loss = error(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
if elastic.shutdown():
    torch.save(model.state_dict() | {"scale": torch.tensor(scaler.get_scale())}, sys.argv[1])
