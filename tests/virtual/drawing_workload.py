"""The tiny workload with samples that are drawn, as most data sets with augmentation have it."""

import random
import time

import numpy as np
import torch

from tests.backends.tiny_workload import Tiny


class Drawing(Tiny):
    """Draws from every random state of its process, for its samples and for its loss. Of each
    sample one normal number of NumPy's and of Python's, which make two and keep one."""

    def __init__(self, *, fetch_s=0.0, **options):
        """``fetch_s``: how long a batch takes, so that changes come in the middle of one."""
        super().__init__(**options)
        self._fetch_s = fetch_s

    def samples(self, ids, epochs=None):
        batch = dict(super().samples(ids, epochs))
        x = batch["x"] + torch.randn(batch["x"].shape) * 0.1
        if torch.rand(()) < 0.5:
            x = x.flip(1)
        factors = [[random.gauss(1, 0.1) * np.random.normal(1, 0.1)] for _ in ids]
        time.sleep(self._fetch_s)
        return {**batch, "x": x * torch.tensor(factors, dtype=torch.float32)}

    def loss(self, model, batch):
        noise = random.gauss(0, 0.1) + np.random.randn() * 0.1 + torch.randn(()) * 0.1
        return super().loss(model, batch) * (1 + noise)
