"""Transform that makes programs of jobs crash, or fail for good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.contracts.job import JobSpec
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.events import TraceEvent, TraceEventKind
from harness.trace.model.trace import Trace
from harness.trace.transforms.resample import DAY_S


@dataclass(frozen=True)
class CrashJobs:
    """Repeated crashes of programs; a share of them is fatal and ends the job as failed.

    Each job draws moments from its arrival to ``until_s`` (by default the end of the last job, if
    every job started on arrival), exponential times apart. A moment at which the job has no workers
    has no effect, since a program that does not run cannot crash. So the time between crashes is
    exponential in the time that a job holds slots, whatever the scheduler does. Jobs that run
    beyond ``until_s`` do not crash any more. A crash costs the job its slots, and its work since
    the last checkpoint (``engine.checkpoint_every_s``).

    Every job has a separate random stream, so its moments do not depend on other jobs. A larger
    fatal share makes the same crashes fatal and some more. Two choices are ours: all jobs crash at
    the same rate, and the number of a job's attempts is geometric. A real cluster would give up
    after a fixed number of attempts.
    """

    crashes_per_day: float
    """Mean number of crashes in a day of holding slots; 0: none."""
    fatal_share: float = 0.0
    """Share of the crashes that end the job as failed."""
    until_s: float | None = None

    def __post_init__(self) -> None:
        check(
            not 0 <= self.crashes_per_day < float("inf")
            and f"crashes_per_day is {self.crashes_per_day}; it must be finite and >= 0",
            not 0 <= self.fatal_share <= 1
            and f"fatal_share is {self.fatal_share}; it must lie in [0, 1]",
            self.until_s is not None and positive("until_s", self.until_s),
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace with the crashes and failures."""
        end_s = trace.end_s if self.until_s is None else self.until_s
        events = [
            event
            for job in trace.jobs
            for event in self._of(job, context.rng(f"trace.CrashJobs.{job.job_id}"), end_s)
        ]
        num_fatal = sum(event.kind is TraceEventKind.FAIL for event in events)
        note = (
            f"CrashJobs: {len(events)} moments up to {end_s:.10g} s, {self.crashes_per_day:.10g} in"
            f" a day of a job, {num_fatal} of them fatal, seed {context.seed}"
        )
        return trace.with_events(note, events)

    def _of(self, job: JobSpec, rng: np.random.Generator, end_s: float) -> Iterator[TraceEvent]:
        if not self.crashes_per_day:
            return
        mean_s = DAY_S / self.crashes_per_day
        # Above 0: an event must come after its job's arrival.
        at_s = job.arrival_s + max(1e-3, rng.exponential(mean_s))
        while at_s < end_s:
            is_fatal = rng.random() < self.fatal_share
            kind = TraceEventKind.FAIL if is_fatal else TraceEventKind.CRASH
            yield TraceEvent(at_s, kind, job_id=job.job_id)
            at_s += rng.exponential(mean_s)
