"""How all workers of a job end at the same step, at no cost.

In every step one small sum over all workers carries the first worker's command and target
beside everybody's share of the loss. It runs on a group of its own while the gradients are
computed, so that it is there when the step ends. One worker alone needs no sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist

from systems.runtime.control import ControlClient


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all workers know at the end of a step."""

    stop: bool
    """Save and leave now."""
    target_step: int
    loss: float
    """Mean over the global batch."""


class Agreement:
    """One worker's side. Only the first worker, rank 0, listens to the driver."""

    def __init__(
        self, rank: int, group: dist.ProcessGroup | None, client: ControlClient, target_step: int
    ) -> None:
        self._rank = rank
        self._group = group
        self._client = client
        self._stop = False
        self._target_step = target_step
        self._words = torch.zeros(3, dtype=torch.float64)
        self._values = self._words.numpy()  # the same memory, ten times faster to write to
        self._work: dist.Work | None = None

    def begin(self, loss: float) -> None:
        """Give this worker's share of the step's loss, and what the driver wants by now."""
        if self._rank == 0:
            for message in self._client.arrived():
                if message["kind"] == "stop":
                    self._stop = True
                elif message["kind"] == "hold":
                    self._target_step = message["target_step"]
            self._values[:] = (self._stop, self._target_step, loss)
        else:
            self._values[:] = (0.0, 0.0, loss)
        if self._group is not None:
            work = dist.all_reduce(self._words, group=self._group, async_op=True)
            self._work = cast(dist.Work, work)

    def end(self) -> Verdict:
        """Wait for what all workers gave."""
        if self._work is not None:
            self._work.wait()
        stop, target_step, loss = self._values.tolist()
        return Verdict(stop > 0, int(target_step), loss)
