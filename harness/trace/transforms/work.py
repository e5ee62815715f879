"""Transforms that change which workload jobs train, with which batch, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.contracts.job import JobSpec
from harness.errors import suggest
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.trace import Trace, TraceError

_HOW = ("round_robin", "random", "rename")


@dataclass(frozen=True)
class AssignWorkloads:
    """Assignment of a workload to every job.

    ``round_robin`` deals the names of ``pool`` in the order of arrival. ``random`` draws them with
    equal chance (stream ``trace.AssignWorkloads``). ``rename`` replaces each job's workload by its
    entry in ``renames``. ``pool`` None means the run's workload pool.

    ``batch`` sets the global batch, for all jobs or by new workload; None keeps it. A batch set
    here is also the only one allowed. The number of samples stays although the workload is another:
    put ``RecomputeWork`` after this transform.
    """

    pool: Sequence[str] | None = None
    how: Literal["round_robin", "random", "rename"] = "round_robin"
    renames: Mapping[str, str] = field(default_factory=dict)
    batch: int | Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        check(
            self.how not in _HOW and f"how is {self.how!r}; give one of {', '.join(_HOW)}",
            self.how == "rename"
            and not self.renames
            and "how is 'rename' but renames is empty; give old: new for every workload",
            self.how == "rename"
            and self.pool is not None
            and "how is 'rename', which takes no pool; remove one of them",
            self.how != "rename"
            and bool(self.renames)
            and f"renames is given but how is {self.how!r}; set how: rename",
            self.pool is not None and not self.pool and "pool is empty; name a workload",
            *_batch_problems(self.batch),
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with other workloads.

        Raises:
            TraceError: neither pool nor run names a workload, a workload has no new name, or a new
                workload has no batch.
        """
        names = self._renamed(trace) if self.how == "rename" else self._dealt(trace, context)
        batches = _batches("AssignWorkloads", self.batch, sorted(set(names)))
        jobs = (
            _with_batch(replace(job, workload=name), batches.get(name))
            for job, name in zip(trace.jobs, names, strict=True)
        )
        made_up = ["workload"] if self.batch is None else ["workload", "global_batch"]
        in_turn = ", ".join(dict.fromkeys(names))
        seed = f", seed {context.seed}" if self.how == "random" else ""
        note = f"AssignWorkloads: {self.how} of {in_turn}{seed}"
        return trace.step(note + _batch_note(batches), jobs, generated=made_up)

    def _renamed(self, trace: Trace) -> list[str]:
        unknown = {
            job.workload: job.job_id for job in trace.jobs if job.workload not in self.renames
        }
        if unknown:
            raise TraceError(
                f"AssignWorkloads: workload {name!r} (job {unknown[name]}) has no entry in"
                f" renames; {suggest(name, self.renames)}"
                for name in sorted(unknown)
            )
        return [self.renames[job.workload] for job in trace.jobs]

    def _dealt(self, trace: Trace, context: TransformContext) -> list[str]:
        pool = list(context.workloads if self.pool is None else self.pool)
        if not pool:
            raise TraceError(
                ["AssignWorkloads: neither pool nor the run names a workload; name some in pool"]
            )
        count = len(trace.jobs)
        if self.how == "round_robin":
            return [pool[number % len(pool)] for number in range(count)]
        drawn = context.rng("trace.AssignWorkloads").integers(len(pool), size=count)
        return [pool[number] for number in drawn.tolist()]


@dataclass(frozen=True)
class AssignBatch:
    """Assignment of a global batch to every job, one for all or one by workload.

    With ``min_global_batch`` or ``max_global_batch`` a scheduler may choose a batch within that
    range; without them, only this batch is allowed. Work in samples stays.
    """

    batch: int | Mapping[str, int]
    min_global_batch: int | Mapping[str, int] | None = None
    max_global_batch: int | Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        sizes = self.batch if isinstance(self.batch, Mapping) else {"": self.batch}
        problems = _batch_problems(self.batch)
        for name, size in sizes.items():
            low = _limit(self.min_global_batch, name) or size
            high = _limit(self.max_global_batch, name) or size
            if not low <= size <= high:
                problems.append(f"batch {size} is outside [{low}, {high}]; widen the range")
        check(*problems)

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with other batches.

        Raises:
            TraceError: a workload has no batch; the error names all of them.
        """
        present = sorted({job.workload for job in trace.jobs})
        batches = _batches("AssignBatch", self.batch, present)
        jobs = (
            replace(
                _with_batch(job, batches[job.workload]),
                min_global_batch=_limit(self.min_global_batch, job.workload),
                max_global_batch=_limit(self.max_global_batch, job.workload),
            )
            for job in trace.jobs
        )
        return trace.step("AssignBatch" + _batch_note(batches), jobs, generated=["global_batch"])


@dataclass(frozen=True)
class BatchPerSlot:
    """Assignment of a global batch in proportion to the slots that a job requested.

    ``batch`` is the number of samples for each requested slot, for all jobs or by workload. The
    global batch does not change when the job gets other slots. Work in samples stays too: put
    ``RecomputeWork`` after this transform. Source: EDL's strong scaling (Wu et al., section 6: the
    batch per GPU times the initial GPUs).
    """

    batch: int | Mapping[str, int]

    def __post_init__(self) -> None:
        check(*_batch_problems(self.batch))

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with other batches.

        Raises:
            TraceError: a workload has no batch; the error names all of them.
        """
        present = sorted({job.workload for job in trace.jobs})
        batches = _batches("BatchPerSlot", self.batch, present)
        jobs = (_with_batch(job, batches[job.workload] * job.requested_slots) for job in trace.jobs)
        note = "BatchPerSlot" + _batch_note(batches)
        return trace.step(note, jobs, generated=["global_batch"])


def _limit(limits: int | Mapping[str, int] | None, workload: str) -> int | None:
    """Return an end of a workload's batch range; None if it has none."""
    return limits.get(workload) if isinstance(limits, Mapping) else limits


@dataclass(frozen=True)
class ScaleDurations:
    """Multiplication of durations and work by ``factor``; arrivals stay.

    The time from arrival to deadline is multiplied too, so that deadlines keep their tightness.
    With ``CompressArrivals`` of 1/factor the whole trace is scaled in time.
    """

    factor: float

    def __post_init__(self) -> None:
        check(positive("factor", self.factor))

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with durations and work multiplied by ``factor``."""
        note = f"ScaleDurations: durations and work times {self.factor:.10g}"
        return trace.step(note, map(self._scaled, trace.jobs))

    def _scaled(self, job: JobSpec) -> JobSpec:
        deadline_s = job.deadline_s
        if deadline_s is not None:
            deadline_s = job.arrival_s + (deadline_s - job.arrival_s) * self.factor
        return replace(
            job,
            work_samples=job.work_samples * self.factor,
            duration_s=None if job.duration_s is None else job.duration_s * self.factor,
            deadline_s=deadline_s,
        )


def durations_missing(transform: str, trace: Trace) -> list[str]:
    """Return a problem for every job without a duration."""
    return [
        f"{transform}: job {job.job_id} has no duration; read one from the file, or leave the"
        " transform out"
        for job in trace.jobs
        if job.duration_s is None
    ]


def _batch_problems(batch: int | Mapping[str, int] | None) -> list[str]:
    sizes = batch if isinstance(batch, Mapping) else {"all": batch}
    return [
        f"batch of {name} is {size}; it must be at least 1"
        for name, size in sizes.items()
        if size is not None and size < 1
    ]


def _batches(
    transform: str, batch: int | Mapping[str, int] | None, workloads: Sequence[str]
) -> dict[str, int]:
    """Return the batch of each workload; empty if no batch is to be set.

    Raises:
        TraceError: a workload has no batch; the error names all of them.
    """
    if batch is None:
        return {}
    if not isinstance(batch, Mapping):
        return dict.fromkeys(workloads, batch)
    absent = [name for name in workloads if name not in batch]
    if absent:
        raise TraceError(
            f"{transform}: no batch for workload {name!r}; {suggest(name, batch)}"
            for name in absent
        )
    return {name: batch[name] for name in workloads}


def _batch_note(batches: Mapping[str, int]) -> str:
    listed = ", ".join(f"{name} {size}" for name, size in batches.items())
    return f"; global batch: {listed}" if listed else ""


def _with_batch(job: JobSpec, batch: int | None) -> JobSpec:
    if batch is None:
        return job
    return replace(job, global_batch=batch, min_global_batch=None, max_global_batch=None)
