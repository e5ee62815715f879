"""Two networks that train against each other, each with its optimizer."""

import sys

import torch
from points import BATCH, EPOCHS, Points
from torch.nn.functional import binary_cross_entropy_with_logits

from systems.script import api as elastic

torch.manual_seed(0)
maker = torch.nn.Linear(2, 4, dtype=torch.float64)
judge = torch.nn.Linear(4, 1, dtype=torch.float64)
of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
judge, of_judge = elastic.init(judge, of_judge)
maker, of_maker = elastic.init(maker, of_maker)
for _ in loader.epochs():
    for x, _ in loader:
        made = maker(torch.randn(len(x), 2, dtype=torch.float64))
        answers = judge(torch.cat([x, made.detach()]))
        truths = torch.cat([torch.ones(len(x), 1), torch.zeros(len(x), 1)]).double()
        of_judge.zero_grad()
        binary_cross_entropy_with_logits(answers, truths).backward()
        of_judge.step()
        of_maker.zero_grad()
        binary_cross_entropy_with_logits(judge(made), truths[: len(x)]).backward()
        of_maker.step()
if elastic.shutdown():
    torch.save(judge.state_dict(), sys.argv[1])
