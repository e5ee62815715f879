"""Two moving averages of the weights: torch's, and a copy that the script updates itself."""

import copy
import sys

import torch
from points import BATCH, EPOCHS, Points, error, network
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from systems.script import api as elastic

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
own = copy.deepcopy(model)
for _ in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            for kept, new in zip(own.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.2)
if elastic.shutdown():
    named = {"model": model, "average": average, "own": own}
    states = {f"{name} {k}": v for name, m in named.items() for k, v in m.state_dict().items()}
    torch.save(states, sys.argv[1])
