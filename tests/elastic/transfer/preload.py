"""Imported once by the process from which the tests' processes are forked."""

import torch

from tests.elastic.transfer import jobs  # noqa: F401

# Torch imports a good part of itself only when the first optimizer is made.
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
