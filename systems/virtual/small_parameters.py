"""Parameters whose gradients are taken when a worker's turn is over, all at once.

A call at every gradient, as large ones have it, costs more time than a small one's sum does.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

SMALL_ELEMENTS = 1 << 16
"""Parameters with fewer are small."""


def is_small(parameter: torch.Tensor) -> bool:
    """Whether a parameter's gradient is taken at the end of a turn."""
    return parameter.numel() < SMALL_ELEMENTS


class SmallParameters:
    """Knows which of them got a gradient in a turn's last backward pass."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Args: the small parameters of a model."""
        self.parameters = tuple(parameters)
        self._versions: dict[int, int] = {}
        """Of gradients that were there before that pass, which adds to them in place."""

    def begin(self) -> None:
        """Before a turn's last forward pass."""
        self._versions = {
            id(one): one.grad._version for one in self.parameters if one.grad is not None
        }

    def missing(self) -> set[int]:
        """After a turn's last backward pass: ids of those without a part in its loss."""
        return {
            id(one)
            for one in self.parameters
            if one.grad is None or one.grad._version == self._versions.get(id(one))
        }
