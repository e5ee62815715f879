"""Check that every parameter has a part in the loss, which training here requires."""

from __future__ import annotations

import torch

from harness.errors import WorkerError


class UnusedParameterError(WorkerError, RuntimeError):
    """A parameter had no part in the loss of a step; the text names it."""


def check_all_used(model: torch.nn.Module) -> None:
    """Check a model after a backward pass.

    Raises:
        UnusedParameterError: a parameter that requires a gradient has none.
    """
    names = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.grad is None
    ]
    if names:
        raise unused(names)


def unused(names: list[str]) -> UnusedParameterError:
    """Return the error for these parameters."""
    return UnusedParameterError(
        f"{len(names)} parameters have no part in the loss, such as {names[0]}: stock"
        " DistributedDataParallel refuses this, too. Freeze them (requires_grad_(False)), or use"
        " them in every step"
    )
