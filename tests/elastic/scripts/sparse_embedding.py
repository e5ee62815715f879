"""An embedding whose gradients are sparse."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error

from systems.script import api as elastic

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.EmbeddingBag(8, 4, sparse=True, dtype=torch.float64),
    torch.nn.Linear(4, 1, dtype=torch.float64),
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS, inputs=lambda batch: (batch[0] > 0).long())
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model((x > 0).long()), y).backward()
        optimizer.step()
if elastic.shutdown():
    torch.save(model.state_dict(), sys.argv[1])
