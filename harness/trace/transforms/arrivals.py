"""Transforms that select jobs and change their arrivals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from harness.contracts.job import JobSpec
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.similarity import similarity
from harness.trace.model.trace import Trace, TraceError
from harness.trace.transforms.work import durations_missing


@dataclass(frozen=True)
class TimeWindow:
    """Selection of the jobs that arrive from ``start_s`` on and before ``end_s``.

    The first of them arrives at 0; deadlines move with the arrivals.
    """

    start_s: float = 0.0
    end_s: float = math.inf

    def __post_init__(self) -> None:
        check(
            not 0 <= self.start_s < math.inf
            and f"start_s is {self.start_s}; it must be finite and >= 0",
            not self.end_s > self.start_s
            and f"end_s {self.end_s} is not after start_s {self.start_s}; swap or correct them",
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace of the jobs in the window.

        Raises:
            TraceError: no job arrives in the window.
        """
        kept = [job for job in trace.jobs if self.start_s <= job.arrival_s < self.end_s]
        note = (
            f"TimeWindow: {len(kept)} of {len(trace.jobs)} jobs, arrived in"
            f" [{self.start_s:.10g}, {self.end_s:.10g}) s"
        )
        if not kept:
            last_s = trace.jobs[-1].arrival_s
            raise TraceError([f"{note}; arrivals run from 0 to {last_s:.10g} s, move the window"])
        return trace.step(note, from_zero(kept))


@dataclass(frozen=True)
class FirstJobs:
    """Selection of ``count`` jobs in the order of arrival, after leaving out the first ``skip``.

    The first selected job arrives at 0; deadlines move with the arrivals.
    """

    count: int
    skip: int = 0

    def __post_init__(self) -> None:
        check(
            self.count < 1 and f"count is {self.count}; keep at least 1 job",
            self.skip < 0 and f"skip is {self.skip}; it must be at least 0",
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace of the selected jobs.

        Raises:
            TraceError: the trace has fewer jobs.
        """
        total = len(trace.jobs)
        if self.skip + self.count > total:
            raise TraceError(
                [
                    f"FirstJobs: skip {self.skip} and count {self.count} ask for more than the"
                    f" {total} jobs of {trace.name}; lower them"
                ]
            )
        kept = trace.jobs[self.skip : self.skip + self.count]
        after = f" after the first {self.skip}" if self.skip else ""
        note = f"FirstJobs: {self.count} of {total} jobs{after}"
        return trace.step(note, from_zero(kept))


@dataclass(frozen=True)
class KeepDurations:
    """Selection of the jobs that ran for ``min_s`` seconds or more, and for less than ``max_s``.

    The first selected job arrives at 0; deadlines move with the arrivals.
    """

    min_s: float = 0.0
    max_s: float = math.inf

    def __post_init__(self) -> None:
        check(
            not 0 <= self.min_s < self.max_s
            and f"min_s {self.min_s} to max_s {self.max_s} is no range; give 0 <= min_s < max_s"
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace of the selected jobs.

        Raises:
            TraceError: a duration is unknown, or no job is in the range.
        """
        problems = durations_missing("KeepDurations", trace)
        if problems:
            raise TraceError(problems)
        kept = [job for job in trace.jobs if self.min_s <= (job.duration_s or 0.0) < self.max_s]
        note = (
            f"KeepDurations: {len(kept)} of {len(trace.jobs)} jobs, of"
            f" [{self.min_s:.10g}, {self.max_s:.10g}) s"
        )
        if not kept:
            raise TraceError([f"{note}; none of {trace.name} is that long, widen the range"])
        return trace.step(note, from_zero(kept))


@dataclass(frozen=True)
class CompressArrivals:
    """Division of every arrival by ``factor``; a factor above 1 raises the load.

    Durations and work stay. Each deadline keeps its distance from its own arrival.
    """

    factor: float

    def __post_init__(self) -> None:
        check(positive("factor", self.factor))

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with every arrival divided by ``factor``."""
        closer = (moved(job, job.arrival_s / self.factor) for job in trace.jobs)
        return trace.step(f"CompressArrivals: arrivals divided by {self.factor:.10g}", closer)


@dataclass(frozen=True)
class ScaleLoad:
    """Scaling of the arrivals so that the load on the run's cluster becomes ``load``.

    Load is defined as in ``trace.model.similarity``: requested slots times durations, over the
    cluster's slots times the span of the arrivals. Durations and work stay. Each deadline keeps its
    distance from its own arrival.
    """

    load: float

    def __post_init__(self) -> None:
        check(positive("load", self.load))

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs at that load.

        Raises:
            TraceError: the load is unknown, because there is no cluster, a duration is missing, or
                all jobs arrive at one time.
        """
        if context.cluster is None:
            raise TraceError(["ScaleLoad: there is no cluster; choose one"])
        before = similarity(trace.jobs, context.cluster.num_slots).get("load")
        if before is None:
            raise TraceError(
                [
                    f"ScaleLoad: the load of {trace.name} is not known, as it needs the durations"
                    " of all jobs and arrivals at different times; correct the trace, or leave"
                    " ScaleLoad out"
                ]
            )
        closer = (moved(job, job.arrival_s * before / self.load) for job in trace.jobs)
        note = f"ScaleLoad: load {before:.6g} made {self.load:.10g} on {context.cluster.name}"
        return trace.step(note, closer)


def moved(job: JobSpec, arrival_s: float) -> JobSpec:
    """Return the job with another arrival; its deadline moves with the arrival."""
    if job.deadline_s is None:
        return replace(job, arrival_s=arrival_s)
    return replace(
        job, arrival_s=arrival_s, deadline_s=arrival_s + (job.deadline_s - job.arrival_s)
    )


def from_zero(jobs: Iterable[JobSpec]) -> Iterator[JobSpec]:
    """Yield the jobs in order, moved so that the first arrives at 0."""
    first_s: float | None = None
    for job in jobs:
        first_s = job.arrival_s if first_s is None else first_s
        yield moved(job, job.arrival_s - first_s) if first_s else job
