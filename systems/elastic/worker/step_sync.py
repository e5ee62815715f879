"""StepSync: a small sum over all workers in every step, with the first worker's commands.

The sum also carries each worker's share of the loss. It runs while the gradients are computed, so
that it is complete when the step ends. Only the first worker commands, even if another worker
leads. So all workers read the same commands at the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from systems.runtime.wire.groups import Group, Pending

_FIXED = 4
"""Number of command words, which come before the losses and the times."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Content of the words, which all workers know when a step has ended."""

    stop: bool
    """Whether all workers save and leave now."""
    target_step: int
    switch: int
    """Generation to switch to now; 0: none."""
    pause: int = 0
    """Id of a change plus 1: stop now until it has a generation to switch to; 0: no change."""
    losses: tuple[float, ...] = ()
    """Sums over all workers of the losses, by place."""
    times_s: tuple[float, ...] = ()
    """Each worker's time, by rank; empty if the words have no times."""


class StepSync:
    """StepSync of one worker."""

    def __init__(self, num_losses: int = 1, *, has_times: bool = False) -> None:
        """Allocate the words.

        Args:
            num_losses: number of places for losses, see ``Trainer``.
            has_times: whether every worker also tells a time. That makes the sum longer, and gloo
                may then add the workers' losses in another order, which can change their last bit.
        """
        self._has_times = has_times
        self._num_losses = num_losses
        self._resize(0)
        self._pending: Pending | None = None

    def fresh(self) -> StepSync:
        """Return words of the same form in memory of their own."""
        return StepSync(self._num_losses, has_times=self._has_times)

    def begin(
        self,
        group: Group,
        losses: Sequence[tuple[int, float]],
        command: Verdict | None,
        time_s: float = 0.0,
    ) -> None:
        """Give this worker's losses, its time and, as the first worker, the commands."""
        num_times = group.size if self._has_times else 0
        before_times = _FIXED + self._num_losses
        if len(self._values) != before_times + num_times:
            self._resize(num_times)
        self._values[:] = 0.0
        for place, loss in losses:
            self._values[_FIXED + place] = loss
        if num_times:
            self._values[before_times + group.rank] = time_s
        if command is not None:
            self._values[:_FIXED] = (
                command.stop,
                command.target_step,
                command.switch,
                command.pause,
            )
        self._pending = group.all_reduce(self._words) if group.size > 1 else None

    def end(self) -> Verdict:
        """Wait for all workers' words, and return them.

        Raises:
            GroupLost: the group was given up.
        """
        if self._pending is not None:
            self._pending.wait()
        stop, target_step, switch, pause, *rest = self._values.tolist()
        losses, times_s = tuple(rest[: self._num_losses]), tuple(rest[self._num_losses :])
        return Verdict(stop > 0, int(target_step), int(switch), int(pause), losses, times_s)

    def _resize(self, num_times: int) -> None:
        self._words = torch.zeros(_FIXED + self._num_losses + num_times, dtype=torch.float64)
        self._values = self._words.numpy()  # the same memory, ten times faster to write to
