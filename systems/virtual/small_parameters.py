"""Parameters whose gradients are taken together, at the end of a worker's turn.

Large parameters have a hook for every gradient. For a small one that would take longer than its
sum.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

SMALL_ELEMENTS = 1 << 16
"""Parameters with fewer elements are small."""


def is_small(parameter: torch.Tensor) -> bool:
    """Return whether a parameter's gradient is taken at the end of a turn."""
    return parameter.numel() < SMALL_ELEMENTS


class SmallParameters:
    """Check of which small parameters got a gradient in a turn's last backward pass."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Watch the small parameters of a model."""
        self.parameters = tuple(parameters)
        self._versions: dict[int, int] = {}
        """Versions of gradients that existed before that pass, which adds to them in place."""

    def begin(self) -> None:
        """Record the gradients' versions before a turn's last forward pass."""
        self._versions = {
            id(one): one.grad._version for one in self.parameters if one.grad is not None
        }

    def missing(self) -> set[int]:
        """Return the ids of those without a part in the loss, after a turn's last backward pass."""
        return {
            id(one)
            for one in self.parameters
            if one.grad is None or one.grad._version == self._versions.get(id(one))
        }
