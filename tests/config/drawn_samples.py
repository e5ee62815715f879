"""A workload whose samples come out of a random state."""

import random

import numpy as np
import torch

from tests.backends.tiny_workload import Tiny


class Drawn(Tiny):
    """``source``: of which library's state, or ``own``, or ``none``."""

    def __init__(self, *, source: str) -> None:
        super().__init__()
        self._source = source
        self._generator = torch.Generator().manual_seed(0)

    def samples(self, ids, epochs=None):
        noise = {
            "Python": random.random,
            "NumPy": np.random.random,
            "torch": lambda: torch.rand(1).item(),
            "own": lambda: torch.rand(1, generator=self._generator).item(),
            "none": lambda: 0.0,
        }[self._source]
        return {key: value + noise() for key, value in super().samples(ids, epochs).items()}
