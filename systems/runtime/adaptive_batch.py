"""A job's own choice of batch and learning rate while it trains, by its gradient noise.

Source: Qiao et al., "Pollux: Co-adaptive cluster scheduling for goodput-optimized deep learning",
OSDI '21, section 3; its rule of the learning rate is AdaScale's (Johnson et al., "AdaScale SGD: A
user-friendly algorithm for distributed training", ICML '20). With m0 the job's own batch, mu the
mean gradient and s2 the variance (trace of the covariance) of a gradient of m0 samples, the noise
scale is phi = m0 * s2 / |mu|^2 (samples), and for a batch of m samples on n workers

    efficiency(m)   = (phi + m0) / (phi + m)            progress per sample, over that at m0
    gain(m)         = (phi / m0 + 1) / (phi / m + 1)    what m0's learning rate is multiplied by
    goodput(n, m)   = samples per second * efficiency(m)

and the batch is the one of the greatest goodput. Differs:

- Seconds are not measured. A step is taken to last as long as a worker needs for c + m/n samples
  (c: ``step_cost_samples``), so that the same job makes the same choices on every machine. Then
  goodput is greatest at m = sqrt(n * c * phi).
- |mu|^2 and s2 are estimated from the reduced gradients of two consecutive steps of the same batch,
  as Pollux's implementation does on one worker; with several it compares those of the workers.
- Slots are the scheduler's business: here the job follows its grant.

All workers see the same reduced gradients, so they make the same choice without a word, as long as
their processors add up alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.contracts.training import AdaptiveBatch

LEAST_IMPROVEMENT = 1.05
"""Over the goodput of the present batch, for another one to be taken."""
MOST_NOISE_SAMPLES = 1e9
"""Where no mean is to be seen under the noise: a large batch is as good as many small ones."""


class BatchAdapter:
    """One worker's; all workers of a job have the same state."""

    def __init__(self, options: AdaptiveBatch) -> None:
        """``enter`` comes before the first step."""
        self._options = options
        self._num_workers = 1
        self._batch = options.initial
        self._is_due = True
        self._square = 0.0
        """Mean of the estimates of |mu|^2, from 0 on: to be divided by ``_weight``."""
        self._variance = 0.0
        """Of those of s2, likewise."""
        self._weight = 0.0
        self._before: tuple[int, list[torch.Tensor]] | None = None
        """Batch and reduced gradients of the step before."""

    def enter(self, num_workers: int) -> None:
        """So many workers train from now on: the batch is chosen anew.

        The step before is forgotten, since a newcomer has not seen it.
        """
        self._num_workers = num_workers
        self._batch = max(self._options.initial, num_workers)
        self._is_due = True
        self._before = None

    def is_done(self, consumed: int) -> bool:
        """Whether a job that has consumed so many samples has done its work."""
        return consumed >= self._options.target_samples

    def batch(self, step: int, consumed: int) -> int:
        """Samples of the next step, which is the same however often it is asked for.

        Args:
            step: number of the step, from 0.
            consumed: samples before it.
        """
        if self._is_due or step % self._options.every == 0:
            self._is_due = False
            self._choose()
        left = self._options.target_samples - consumed
        return max(self._num_workers, min(self._batch, left))

    def _choose(self) -> None:
        phi = self.noise_samples
        if phi is None:
            return
        options, workers = self._options, self._num_workers
        best = math.sqrt(workers * options.step_cost_samples * phi)
        chosen = int(max(options.initial, workers, min(best, options.largest)))
        improvement = self._goodput(chosen, phi) / self._goodput(self._batch, phi)
        if improvement > LEAST_IMPROVEMENT:
            self._batch = chosen

    def _goodput(self, batch: int, phi: float) -> float:
        step = self._options.step_cost_samples + batch / self._num_workers
        return batch / step * (phi + self._options.initial) / (phi + batch)

    @property
    def noise_samples(self) -> float | None:
        """The noise scale phi, samples; None before the first estimate."""
        if self._weight == 0.0:
            return None
        noise = self._options.initial * max(self._variance, 0.0)
        if noise >= MOST_NOISE_SAMPLES * self._square:
            return MOST_NOISE_SAMPLES
        return noise / self._square

    def rate_batch(self, batch: int) -> float:
        """The batch whose learning rate, growing with the batch, AdaScale gives to this one."""
        initial, phi = self._options.initial, self.noise_samples
        if phi is None or batch <= initial:
            return float(batch)
        return initial * (phi / initial + 1) / (phi / batch + 1)

    def observe(self, parameters: Sequence[torch.nn.Parameter], batch: int) -> None:
        """A step is committed, with the mean gradients that the parameters have now."""
        options = self._options
        now = [p.grad.detach().clone() for p in parameters if p.grad is not None]
        before, self._before = self._before, (batch, now)
        if before is None or before[0] != batch:
            return
        one, other, both = 0.0, 0.0, 0.0
        for earlier, later in zip(before[1], now, strict=True):
            one += float((earlier * earlier).sum())
            other += float((later * later).sum())
            both += float((earlier * later).sum())
        # Of two independent gradients: E[g g'] = |mu|^2, E[|g - g'|^2] = 2 s2 * m0 / m.
        variance = (one + other - 2 * both) / 2 * batch / options.initial
        keep = options.smoothing
        self._square = keep * self._square + (1 - keep) * both
        self._variance = keep * self._variance + (1 - keep) * variance
        self._weight = keep * self._weight + (1 - keep)

    def values(self) -> dict[str, float]:
        """What a worker must know to go on from this step boundary, as JSON can hold it."""
        return {"square": self._square, "variance": self._variance, "weight": self._weight}

    def adopt(self, values: Mapping[str, Any]) -> None:
        """Take what ``values`` gave; ``enter`` follows.

        Raises:
            KeyError: something is missing.
        """
        self._square, self._variance = float(values["square"]), float(values["variance"])
        self._weight = float(values["weight"])
        self._before = None
