"""One weight in two layers, and decay of its own for each group of parameters."""

import sys

import torch
from points import BATCH, EPOCHS, Points

from systems.script import api as elastic

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(4, 4, dtype=torch.float64),
    torch.nn.Tanh(),
    torch.nn.Linear(4, 4, dtype=torch.float64),
)
model[2].weight = model[0].weight
groups = [
    {"params": [model[0].weight], "weight_decay": 0.01},
    {"params": [model[0].bias, model[2].bias]},
]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for x, _ in loader:
        model.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
