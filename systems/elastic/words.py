"""What all workers tell each other in every step, at no cost.

One small sum over all workers carries the first worker's commands beside everybody's share of
the loss. It travels while the gradients are computed, so that it is there when the step ends.
Only the first worker commands: it is the same for all by construction, whoever leads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from systems.elastic.groups import Group, Pending


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all workers know when a step has ended."""

    stop: bool
    """Save and leave now."""
    target_step: int
    switch: int
    """Generation to switch to now; 0: none."""
    pause: int = 0
    """Stop now, until there is a generation to switch to: 1 more than the change's id."""
    loss: float = 0.0
    """Mean over the global batch."""


class Words:
    """One worker's side."""

    def __init__(self) -> None:
        self._words = torch.zeros(5, dtype=torch.float64)
        self._values = self._words.numpy()  # the same memory, ten times faster to write to
        self._pending: Pending | None = None

    def begin(self, group: Group, loss: float, command: Verdict | None) -> None:
        """Give this worker's share of the loss and, as the first worker, the commands."""
        if command is None:
            self._values[:] = (0.0, 0.0, 0.0, 0.0, loss)
        else:
            self._values[:] = (
                command.stop,
                command.target_step,
                command.switch,
                command.pause,
                loss,
            )
        self._pending = group.all_reduce(self._words) if group.size > 1 else None

    def end(self) -> Verdict:
        """Wait for what all workers gave.

        Raises:
            GroupLost: the group was given up.
        """
        if self._pending is not None:
            self._pending.wait()
        stop, target_step, switch, pause, loss = self._values.tolist()
        return Verdict(stop > 0, int(target_step), int(switch), int(pause), loss)
