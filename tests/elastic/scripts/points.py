"""Samples of the scripts: points and what a small network is to say of them."""

import math
import sys
import time

import torch
from torch.utils.data import Dataset

NUM_SAMPLES = 96
BATCH = 12
EPOCHS = 1000


class Points(Dataset):
    """Points in four dimensions with a number and a class each."""

    def __init__(self, dtype=torch.float64, is_bad=False):
        """Args: type of the points, and whether the number of one of them is infinite."""
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(NUM_SAMPLES, 4, dtype=torch.float64, generator=generator)
        self.y = (self.x @ torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)).tanh()
        if is_bad:
            self.y[17] = math.inf
        self.x, self.y = self.x.to(dtype), self.y.to(dtype)

    def __len__(self):
        """Return the number of samples."""
        return NUM_SAMPLES

    def __getitem__(self, index):
        """Return one point and its number."""
        return self.x[index], self.y[index]

    def __getitems__(self, indices):
        """Return several; slowly if asked, so that a job lasts as long as its changes."""
        if "slow" in sys.argv:
            time.sleep(0.01)
        return [self[index] for index in indices]


def network(dtype=torch.float64):
    """Return the network that the scripts train, always the same."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8, dtype=dtype), torch.nn.Tanh(), torch.nn.Linear(8, 1, dtype=dtype)
    )


def error(outputs, targets):
    """Return the mean squared error."""
    return (outputs.squeeze(1) - targets).square().mean()
