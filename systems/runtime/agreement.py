"""How all workers of a job end at the same step, at no cost.

In every step one small sum over all workers carries the first worker's command and target
beside everybody's share of the loss. It runs on a group of its own while the gradients are
computed, so that it is there when the step ends; or on the one of the gradients, where an
ordered reduction brings one that can have many sums under way. One worker alone needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from systems.runtime.control import ControlClient


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all workers know at the end of a step."""

    stop: bool
    """Save and leave now."""
    target_step: int
    losses: tuple[float, ...]
    """As all workers gave them, by place."""


class Sum(Protocol):
    """A sum under way."""

    def wait(self) -> object:
        """Wait until it is there."""
        ...


SumWords: TypeAlias = Callable[[torch.Tensor], Sum]
"""Begins to sum a tensor over all workers, in place."""


class Agreement:
    """One worker's side. Only the first worker, rank 0, listens to the driver."""

    def __init__(
        self,
        rank: int,
        sum_words: SumWords | None,
        client: ControlClient,
        target_step: int,
        num_losses: int = 1,
    ) -> None:
        """Args: ``num_losses``: places for losses, see ``Trainer``."""
        self._rank = rank
        self._sum_words = sum_words
        self._client = client
        self._stop = False
        self._target_step = target_step
        self._words = torch.zeros(2 + num_losses, dtype=torch.float64)
        self._values = self._words.numpy()  # the same memory, ten times faster to write to
        self._sum: Sum | None = None

    def begin(self, losses: Sequence[tuple[int, float]]) -> None:
        """Give this worker's losses, and what the driver wants by now."""
        self._values[:] = 0.0
        for place, loss in losses:
            self._values[2 + place] = loss
        if self._rank == 0:
            for message in self._client.arrived():
                if message["kind"] == "stop":
                    self._stop = True
                elif message["kind"] == "hold":
                    self._target_step = message["target_step"]
            self._values[:2] = (self._stop, self._target_step)
        if self._sum_words is not None:
            self._sum = self._sum_words(self._words)

    def end(self) -> Verdict:
        """Wait for what all workers gave."""
        if self._sum is not None:
            self._sum.wait()
        stop, target_step, *losses = self._values.tolist()
        return Verdict(stop > 0, int(target_step), tuple(losses))
