"""Calls that a script's model and optimizer make during a step."""

from __future__ import annotations

from typing import Any, Protocol


class StepCalls(Protocol):
    """Part of a script's run that its model and its optimizer call."""

    @property
    def is_training(self) -> bool:
        """True if a call of the model now computes the gradients of a step."""
        ...

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model as all workers share it, and begin the reduction."""
        ...

    def zeroed(self) -> None:
        """Note that the script has set the gradients to zero."""
        ...

    def update(self) -> None:
        """Update the parameters, as ``optimizer.step()`` does in all workers at once."""
        ...
