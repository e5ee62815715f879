"""A job's own choice of batch and learning rate while it trains, from its gradient noise.

Source: Qiao et al., "Pollux: Co-adaptive cluster scheduling for goodput-optimized deep learning",
OSDI '21, section 3; its rule of the learning rate is AdaScale's (Johnson et al., "AdaScale SGD: A
user-friendly algorithm for distributed training", ICML '20). Let m0 be the job's own batch and mu
the mean gradient. Let s2 be the variance (trace of the covariance) of a gradient of m0 samples. The
noise scale is phi = m0 * s2 / |mu|^2 (samples), and for a batch of m samples on n workers

    efficiency(m)   = (phi + m0) / (phi + m)            progress per sample, relative to m0
    gain(m)         = (phi / m0 + 1) / (phi / m + 1)    factor on m0's learning rate
    goodput(n, m)   = samples per second * efficiency(m)

The chosen batch has the greatest goodput. Differs:

- Seconds are not measured. A step counts as long as one worker needs for c + m/n samples (c:
  ``step_cost_samples``). So the same job makes the same choices on every machine, and goodput is
  greatest at m = sqrt(n * c * phi).
- |mu|^2 and s2 are estimated from the reduced gradients of two consecutive steps of the same batch,
  as Pollux's implementation does on one worker; with several it compares those of the workers.
- The scheduler chooses the slots: here the job follows its grant.

All workers see the same reduced gradients, so they make the same choice without communication. This
requires processors that sum alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.contracts.training_order import AdaptiveBatch

LEAST_IMPROVEMENT = 1.05
"""Least ratio of goodputs, new batch over present one, at which the batch changes."""
MOST_NOISE_SAMPLES = 1e9
"""Noise scale, in samples, if the mean gradient is too small to be seen in the noise. A large batch
is then as good as many small ones."""


class BatchAdapter:
    """Batch adapter of one worker; all workers of a job have the same state."""

    def __init__(self, options: AdaptiveBatch) -> None:
        """Begin without an estimate; call ``enter`` before the first step."""
        self._options = options
        self._num_workers = 1
        self._batch = options.initial
        self._is_due = True
        self._square = 0.0
        """Running mean of the estimates of |mu|^2, biased towards 0: divide it by ``_weight``."""
        self._variance = 0.0
        """Running mean of the estimates of s2, with the same bias."""
        self._weight = 0.0
        self._before: tuple[int, list[torch.Tensor]] | None = None
        """Batch and reduced gradients of the previous step."""

    def enter(self, num_workers: int) -> None:
        """Train with this number of workers from now on, and choose the batch again.

        The previous step is forgotten, since a new worker has not seen it.
        """
        self._num_workers = num_workers
        self._batch = max(self._options.initial, num_workers)
        self._is_due = True
        self._before = None

    def is_done(self, consumed: int) -> bool:
        """Return whether a job has done its work after ``consumed`` samples."""
        return consumed >= self._options.target_samples

    def batch(self, step: int, consumed: int) -> int:
        """Return the number of samples of the next step; repeated calls return the same.

        Args:
            step: number of the step, from 0.
            consumed: samples before it.
        """
        if self._is_due or step % self._options.every == 0:
            self._is_due = False
            self._choose()
        left = self._options.target_samples - consumed
        # Every worker needs a sample.
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
        """Noise scale phi, in samples; None before the first estimate."""
        if self._weight == 0.0:
            return None
        noise = self._options.initial * max(self._variance, 0.0)
        if noise >= MOST_NOISE_SAMPLES * self._square:
            return MOST_NOISE_SAMPLES
        return noise / self._square

    def rate_batch(self, batch: int) -> float:
        """Return the batch whose learning rate, growing with the batch, is AdaScale's for
        ``batch``."""
        initial, phi = self._options.initial, self.noise_samples
        if phi is None or batch <= initial:
            return float(batch)
        return initial * (phi / initial + 1) / (phi / batch + 1)

    def observe(self, parameters: Sequence[torch.nn.Parameter], batch: int) -> None:
        """Take in a committed step, whose mean gradients the parameters hold now."""
        options = self._options
        # Copies: the next backward pass writes over the gradients.
        now = [p.grad.detach().clone() for p in parameters if p.grad is not None]
        before, self._before = self._before, (batch, now)
        if before is None or before[0] != batch:
            return
        one, other, both = 0.0, 0.0, 0.0
        # In the order of the parameters, on the same processors: all workers must get the same
        # sums, to the last bit, since each chooses the batch by itself.
        for earlier, later in zip(before[1], now, strict=True):
            one += float((earlier * earlier).sum())
            other += float((later * later).sum())
            both += float((earlier * later).sum())
        # For two independent gradients: E[g g'] = |mu|^2, E[|g - g'|^2] = 2 s2 * m0 / m.
        variance = (one + other - 2 * both) / 2 * batch / options.initial
        keep = options.smoothing
        self._square = keep * self._square + (1 - keep) * both
        self._variance = keep * self._variance + (1 - keep) * variance
        self._weight = keep * self._weight + (1 - keep)

    def values(self) -> dict[str, float]:
        """Return the state at this step boundary in a form that JSON can hold."""
        return {"square": self._square, "variance": self._variance, "weight": self._weight}

    def adopt(self, values: Mapping[str, Any]) -> None:
        """Take the state that ``values`` returned; ``enter`` must follow.

        Raises:
            KeyError: a value is missing.
        """
        self._square, self._variance = float(values["square"]), float(values["variance"])
        self._weight = float(values["weight"])
        self._before = None
