"""Transforms that change how many slots jobs ask for and may use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from harness.contracts.job import JobSpec
from harness.trace.model.context import TransformContext, check
from harness.trace.model.trace import Trace, TraceError


@dataclass(frozen=True)
class CapDemand:
    """An upper bound of ``max_slots`` on the slots that a job asks for; its work stays.

    The recorded duration belongs to the old demand. ``duration: stretch`` multiplies it by old over
    new slots, which keeps the slot-seconds like the work (linear scaling is assumed). ``duration:
    keep`` leaves it unchanged. A ``RecomputeWork`` that follows then sets the work to that of the
    smaller demand in the same time.

    Slot ranges are cut to the cap where they start above it.
    """

    max_slots: int
    duration: Literal["stretch", "keep"] = "stretch"

    def __post_init__(self) -> None:
        check(
            self.max_slots < 1 and f"max_slots is {self.max_slots}; a job needs at least 1 slot",
            self.duration not in ("stretch", "keep")
            and f"duration is {self.duration!r}; give stretch or keep",
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs, with no job asking for more than ``max_slots``."""
        capped = sum(job.requested_slots > self.max_slots for job in trace.jobs)
        note = (
            f"CapDemand: {capped} of {len(trace.jobs)} jobs cut to {self.max_slots} slots,"
            f" duration: {self.duration}"
        )
        return trace.step(note, map(self._capped, trace.jobs))

    def _capped(self, job: JobSpec) -> JobSpec:
        if job.requested_slots <= self.max_slots:
            return job
        duration_s = job.duration_s
        if duration_s is not None and self.duration == "stretch":
            duration_s *= job.requested_slots / self.max_slots
        return replace(
            job,
            requested_slots=self.max_slots,
            min_slots=min(job.min_slots, self.max_slots),
            duration_s=duration_s,
        )


@dataclass(frozen=True)
class SetElastic:
    """Elasticity of all jobs: whether a scheduler may give other slot counts than requested."""

    elastic: bool

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs, all elastic or all inelastic."""
        changed = sum(job.elastic is not self.elastic for job in trace.jobs)
        note = f"SetElastic: {str(self.elastic).lower()}, {changed} jobs changed"
        jobs = (replace(job, elastic=self.elastic) for job in trace.jobs)
        return trace.step(note, jobs, generated=("elastic",) if changed else ())


@dataclass(frozen=True)
class SlotRange:
    """A slot range for every job, from ``min_slots`` to ``max_slots`` (None: no upper end)."""

    min_slots: int = 1
    max_slots: int | None = None

    def __post_init__(self) -> None:
        check(
            self.min_slots < 1 and f"min_slots is {self.min_slots}; a job needs at least 1 slot",
            self.max_slots is not None
            and self.max_slots < self.min_slots
            and f"max_slots {self.max_slots} is below min_slots {self.min_slots}; swap them",
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with that range.

        Raises:
            TraceError: jobs ask for a number of slots outside the range; the error names all of
                them.
        """
        high = self.max_slots
        outside = [
            f"SlotRange: job {job.job_id} asks for {job.requested_slots} slots, outside"
            f" [{self.min_slots}, {high}]; widen the range, or put CapDemand before it"
            for job in trace.jobs
            if job.requested_slots < self.min_slots
            or (high is not None and job.requested_slots > high)
        ]
        if outside:
            raise TraceError(outside)
        note = f"SlotRange: {self.min_slots} to {'any number of' if high is None else high} slots"
        jobs = (replace(job, min_slots=self.min_slots, max_slots=high) for job in trace.jobs)
        return trace.step(note, jobs, generated=("min_slots", "max_slots"))


@dataclass(frozen=True)
class LogicalWorkers:
    """A number of logical workers for every job: ``least``, or its requested slots if that is more.

    On backends with virtual workers, such a job can run on 1 slot up to its number of logical
    workers.
    """

    least: int

    def __post_init__(self) -> None:
        check(self.least < 1 and f"least is {self.least}; a job needs at least 1 logical worker")

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with that many logical workers."""
        counts = [max(self.least, job.requested_slots) for job in trace.jobs]
        note = f"LogicalWorkers: {min(counts)} to {max(counts)}, {self.least} at least"
        pairs = zip(trace.jobs, counts, strict=True)
        jobs = (replace(job, logical_workers=count) for job, count in pairs)
        return trace.step(note, jobs, generated=("logical_workers",))
