"""StepSync: a small sum over all workers in every step, with the first worker's commands.

The sum also carries each worker's share of the loss. It runs while the gradients are computed, so
that it is complete when the step ends. Only the first worker commands, even if another worker
leads. So all workers read the same commands at the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch


class Commands(NamedTuple):
    """Commands of the first worker, which all workers obey when a step has ended."""

    stop: bool
    """True if all workers save and leave now."""
    target_step: int
    switch: int = 0
    """Generation to switch to now; 0: none."""
    pause: int = 0
    """Id of a change plus 1: stop now until it has a generation to switch to; 0: no change."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Facts that all workers know when a step has ended."""

    commands: Commands
    losses: tuple[float, ...]
    """Sums over all workers of the losses, by place."""
    times_s: tuple[float, ...] = ()
    """Each worker's time, by rank; empty if no times are exchanged."""


class Sum(Protocol):
    """All-reduce in progress."""

    def wait(self) -> object:
        """Wait until the sum is complete."""
        ...


class Peers(Protocol):
    """Connection of a worker to all others; a lone worker sums nothing."""

    @property
    def rank(self) -> int:
        """Rank of this worker."""
        ...

    @property
    def size(self) -> int:
        """Number of workers."""
        ...

    def all_reduce(self, tensor: torch.Tensor) -> Sum:
        """Begin to sum a tensor over all workers, in place."""
        ...


class StepSync:
    """StepSync of one worker."""

    def __init__(
        self, num_losses: int = 1, *, switches: bool = False, has_times: bool = False
    ) -> None:
        """Allocate the words.

        A longer sum may make gloo add the workers' losses in another order, which can change their
        last bit. So words that a job does not need are left out.

        Args:
            num_losses: number of places for losses, see ``Trainer``.
            switches: whether the commands ``switch`` and ``pause`` are exchanged.
            has_times: whether every worker also tells a time.
        """
        self._switches = switches
        self._has_times = has_times
        self._num_commands = len(Commands._fields) if switches else 2
        self._before_times = self._num_commands + num_losses
        self._resize(0)
        self._sum: Sum | None = None

    def fresh(self) -> StepSync:
        """Return words of the same form in memory of their own."""
        num_losses = self._before_times - self._num_commands
        return StepSync(num_losses, switches=self._switches, has_times=self._has_times)

    def begin(
        self,
        peers: Peers,
        losses: Sequence[tuple[int, float]],
        commands: Commands | None,
        time_s: float = 0.0,
    ) -> None:
        """Begin to exchange what the workers report after a step, without waiting for the others.

        A worker reports its losses and the time of its step. The first worker also passes on the
        driver's commands.
        """
        num_times = peers.size if self._has_times else 0
        if len(self._values) != self._before_times + num_times:
            self._resize(num_times)
        self._values[:] = 0.0
        for place, loss in losses:
            self._values[self._num_commands + place] = loss
        if num_times:
            self._values[self._before_times + peers.rank] = time_s
        if commands is not None:
            self._values[: self._num_commands] = commands[: self._num_commands]
        self._sum = peers.all_reduce(self._words) if peers.size > 1 else None

    def end(self) -> StepFacts:
        """Wait for all workers' words, and return them.

        Raises:
            GroupLost: the group was given up.
        """
        if self._sum is not None:
            self._sum.wait()
        values = self._values.tolist()
        stop, *numbers = values[: self._num_commands]
        return StepFacts(
            Commands(stop > 0, *map(int, numbers)),
            tuple(values[self._num_commands : self._before_times]),
            tuple(values[self._before_times :]),
        )

    def _resize(self, num_times: int) -> None:
        self._words = torch.zeros(self._before_times + num_times, dtype=torch.float64)
        self._values = self._words.numpy()  # the same memory, ten times faster to write to
