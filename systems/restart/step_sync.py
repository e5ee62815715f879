"""StepSync of all workers of a job on the step at which they end, without extra waiting.

In every step one small all-reduce carries the first worker's command and target, and each worker's
share of the loss. This all-reduce runs while gradients are computed, so it is complete when the
step ends. It uses its own process group, or that of an ordered reduction, which allows many
operations at once. A single worker needs no all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import SetTarget, Stop


@dataclass(frozen=True, slots=True)
class Verdict:
    """Facts that all workers know at the end of a step."""

    stop: bool
    """True if the workers must save and leave now."""
    target_step: int
    losses: tuple[float, ...]
    """Losses of all workers, by place."""


class Sum(Protocol):
    """All-reduce in progress."""

    def wait(self) -> object:
        """Wait until the sum is complete."""
        ...


SumWords: TypeAlias = Callable[[torch.Tensor], Sum]
"""Begins to sum a tensor over all workers, in place."""


class StepSync:
    """One worker's side of the agreement. Only the first worker, rank 0, listens to the driver."""

    def __init__(
        self,
        rank: int,
        sum_words: SumWords | None,
        client: ControlClient,
        target_step: int,
        num_losses: int = 1,
    ) -> None:
        """Begin without a stop. Args: ``num_losses``: number of places for losses, see
        ``Trainer``."""
        self._rank = rank
        self._sum_words = sum_words
        self._client = client
        self._stop = False
        self._target_step = target_step
        self._words = torch.zeros(2 + num_losses, dtype=torch.float64)
        self._values = self._words.numpy()  # the same memory, ten times faster to write to
        self._sum: Sum | None = None

    def begin(self, losses: Sequence[tuple[int, float]]) -> None:
        """Contribute this worker's losses and, on rank 0, the driver's latest commands."""
        self._values[:] = 0.0
        for place, loss in losses:
            self._values[2 + place] = loss
        if self._rank == 0:
            for message in self._client.arrived():
                if isinstance(message, Stop):
                    self._stop = True
                elif isinstance(message, SetTarget):
                    self._target_step = message.target_step
            self._values[:2] = (self._stop, self._target_step)
        if self._sum_words is not None:
            self._sum = self._sum_words(self._words)

    def end(self) -> Verdict:
        """Wait for the sum and return the verdict."""
        if self._sum is not None:
            self._sum.wait()
        stop, target_step, *losses = self._values.tolist()
        return Verdict(stop > 0, int(target_step), tuple(losses))
