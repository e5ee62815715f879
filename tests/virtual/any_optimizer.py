"""A workload of the catalogue with another optimizer than its own."""

import importlib

import torch


class AnyOptimizer:
    """The workload ``target`` with ``options``; ``optimizer``: ``sgd`` (momentum) or ``adamw``."""

    def __init__(self, target, options, optimizer):
        module, _, name = target.rpartition(".")
        self._inner = getattr(importlib.import_module(module), name)(**options)
        self._optimizer = optimizer

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def build_optimizer(self, model):
        if self._optimizer == "adamw":
            return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    def update(self, optimizer, global_batch, step, samples=None):
        """A schedule, so that a step that counts wrongly would show."""
        base = 1e-3 if self._optimizer == "adamw" else 0.05
        for group in optimizer.param_groups:
            group["lr"] = base / (1 + step / 50)
        optimizer.step()
