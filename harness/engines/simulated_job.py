"""One job of the simulated engine: how far it is, how fast it goes, what is safe of it."""

from __future__ import annotations

import math

from harness.contracts.engine import Change
from harness.trace.job import JobSpec

_SAME_INSTANT = 1e-12
"""Times that differ by less, relative to the clock, are one: thousands of roundings add up to
less, and at the end of a run of a year it is 30 microseconds."""


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
        """Those it trains on, or did before the change that is under way."""
        self.batch = job.global_batch
        """Global batch on them."""
        self.virtual_workers: tuple[int, ...] | None = None
        """Of each of its slots; None: it has no plan of them."""
        self.change: Change | None = None
        """The one under way."""
        self.saved = 0.0
        """Samples done at its last change, when its state was saved."""
        self.saved_s = 0.0
        self.lag = 0.0
        """What checkpoints after the last one have beside the present rate since ``saved_s``,
        samples: not 0 where the job went at another rate in between."""
        self.done = 0.0
        self.rate = 0.0
        self.paused_rate = 0.0
        """Rate before the pause that is under way."""
        self.since_s = 0.0
        self.end_s = math.inf
        """Planned end of the job; infinite while it does not train."""
        self.version = version
        """Counts up whenever planned events of the job become void."""

    def settle(self, now_s: float) -> None:
        """Count the samples up to now."""
        self.done = min(self.job.work_samples, self.done + self.rate * (now_s - self.since_s))
        self.since_s = now_s

    def save(self, now_s: float) -> None:
        """All that is done is safe now."""
        self.saved, self.saved_s, self.lag = self.done, now_s, 0.0

    def stand(self) -> None:
        """It trains no more; what was planned for it is void."""
        self.rate = self.lag = 0.0
        self.end_s = math.inf
        self.version += 1

    def turn(self, now_s: float, rate: float, every_s: float) -> None:
        """Train on at another rate, with a checkpoint still after every ``every_s`` seconds."""
        self.settle(now_s)
        if every_s < math.inf:
            periods = (now_s - self.saved_s) // every_s
            if periods > 0.0:
                self.saved += self.lag + self.rate * every_s * periods
                self.saved_s += every_s * periods
            self.lag = self.done - rate * (now_s - self.saved_s) - self.saved
        self.rate = rate

    def roll_back(self, now_s: float, every_s: float) -> None:
        """To the last checkpoint: of its last change, or a whole number of periods later."""
        if self.rate > 0.0 and every_s < math.inf:
            periods = (now_s - self.saved_s) // every_s
            if periods > 0.0:
                self.saved += self.lag + self.rate * every_s * periods
        self.done = min(self.done, self.saved)

    def is_over(self, now_s: float) -> bool:
        """Whether the job's planned end is this very instant."""
        return self.end_s - now_s <= _SAME_INSTANT * now_s
