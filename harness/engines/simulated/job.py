"""One job of the simulated engine: its progress, its rate, and its last checkpoint."""

from __future__ import annotations

import math

from harness.contracts.change import Change
from harness.contracts.job import JobSpec

_SAME_INSTANT = 1e-12
"""Relative difference below which two times are the same instant. Thousands of rounding errors add
up to less. At the end of a run of a year it is 30 microseconds."""


class SimulatedJob:
    """Progress of one job: ``done`` samples at ``since_s``, then ``rate`` a second."""

    __slots__ = (
        "batch",
        "change",
        "done",
        "end_s",
        "job",
        "lag",
        "paused_rate",
        "rate",
        "saved",
        "saved_s",
        "since_s",
        "slots",
        "version",
        "virtual_workers",
    )

    def __init__(self, job: JobSpec, version: int = 0) -> None:
        self.job = job
        self.slots: tuple[int, ...] = ()
        """Slots on which it trains, or trained before the change that is under way."""
        self.batch = job.global_batch
        """Global batch on these slots."""
        self.virtual_workers: tuple[int, ...] | None = None
        """Virtual workers of each of its slots; None: it has no plan."""
        self.change: Change | None = None
        """Change that is under way."""
        self.saved = 0.0
        """Samples done at its last change, when its state was saved."""
        self.saved_s = 0.0
        self.lag = 0.0
        """Correction for checkpoints after ``saved_s``, in samples. Such a checkpoint holds
        ``saved`` plus ``lag`` plus ``rate`` times the seconds since ``saved_s``. It is 0 unless the
        rate has changed since."""
        self.done = 0.0
        self.rate = 0.0
        self.paused_rate = 0.0
        """Rate before the pause that is under way."""
        self.since_s = 0.0
        self.end_s = math.inf
        """Planned end of the job; infinite while it does not train."""
        self.version = version
        """Number that grows whenever planned events of the job become void."""

    def settle(self, now_s: float) -> None:
        """Count the samples up to now."""
        self.done = min(self.job.work_samples, self.done + self.rate * (now_s - self.since_s))
        self.since_s = now_s

    def save(self, now_s: float) -> None:
        """Mark all work up to now as saved."""
        self.saved, self.saved_s, self.lag = self.done, now_s, 0.0

    def stand(self) -> None:
        """Stop training, and void the job's planned events."""
        self.rate = self.lag = 0.0
        self.end_s = math.inf
        self.version += 1

    def turn(self, now_s: float, rate: float, every_s: float) -> None:
        """Train on at another rate, with a checkpoint still after every ``every_s`` seconds."""
        self.settle(now_s)
        if every_s < math.inf:
            # Checkpoints that have passed were made at the old rate, so they go into ``saved`` now.
            periods = (now_s - self.saved_s) // every_s
            if periods > 0.0:
                self.saved += self.lag + self.rate * every_s * periods
                self.saved_s += every_s * periods
            self.lag = self.done - rate * (now_s - self.saved_s) - self.saved
        self.rate = rate

    def roll_back(self, now_s: float, every_s: float) -> None:
        """Go back to the last checkpoint: the last change, or a whole number of periods later."""
        if self.rate > 0.0 and every_s < math.inf:
            periods = (now_s - self.saved_s) // every_s
            if periods > 0.0:
                self.saved += self.lag + self.rate * every_s * periods
        self.done = min(self.done, self.saved)

    def is_over(self, now_s: float) -> bool:
        """Return whether the job's planned end is at this instant."""
        return self.end_s - now_s <= _SAME_INSTANT * now_s
