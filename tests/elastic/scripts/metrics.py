"""Metrics that are computed in place on outputs, and passes that are not trained on."""

import sys

import torch
from points import BATCH, EPOCHS, Points, error, network

from systems.script import api as elastic

model = network()
data = Points()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = elastic.batches(data, BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
for _ in loader.epochs():
    total = torch.zeros((), dtype=torch.float64)
    for x, y in loader:
        model.eval()
        with torch.no_grad():
            model(data.x)
        model.train()
        optimizer.zero_grad()
        outputs = model(x)
        loss = error(outputs, y)
        loss.backward()
        outputs.detach().sub_(y.unsqueeze(1)).abs_()
        total += outputs.detach().mean()
        norms = {name: p.grad.norm().item() for name, p in model.named_parameters()}
        assert set(norms) == {"0.weight", "0.bias", "2.weight", "2.bias"}
        optimizer.step()
        elastic.notify_batch_end(loss)
        last = elastic.step()
if elastic.shutdown():
    torch.save(model.state_dict() | {"step": torch.tensor(last)}, sys.argv[1])
