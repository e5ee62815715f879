"""Parameters that have no part in the loss, which nobody here can train."""

from __future__ import annotations

import torch


class UnusedParameterError(RuntimeError):
    """A parameter had no part in the loss of a step; the text names it."""


def check_all_used(model: torch.nn.Module) -> None:
    """After a backward pass.

    Raises:
        UnusedParameterError: a parameter that wants a gradient has none.
    """
    names = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.grad is None
    ]
    if names:
        raise unused(names)


def unused(names: list[str]) -> UnusedParameterError:
    """The error for these parameters."""
    return UnusedParameterError(
        f"{len(names)} parameters have no part in the loss, such as {names[0]}: stock"
        " DistributedDataParallel refuses this, too. Freeze them (requires_grad_(False)), or use"
        " them in every step"
    )
