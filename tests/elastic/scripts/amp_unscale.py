"""A gradient scaler with unscale_, clipping in between, and a fused optimizer."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network(torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
loader = elastic.batches(Points(torch.float32, is_bad=True), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=6)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        loss = error(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
if elastic.shutdown():
    torch.save(model.state_dict() | {"scale": torch.tensor(scaler.get_scale())}, sys.argv[1])
