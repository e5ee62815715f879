"""Transforms that compute work from durations, or durations from work, with the run's profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.contracts.job import JobSpec
from harness.profiles import ProfileError
from harness.trace.model.context import TransformContext
from harness.trace.model.trace import Trace, TraceError
from harness.trace.transforms.work import durations_missing


@dataclass(frozen=True)
class RecomputeWork:
    """Work computed from durations: the samples trained in that time at the requested slots.

    work_samples = duration_s x T(requested slots) at the job's workload and global batch. A job
    alone on its requested slots then lasts as long as its duration says, and deadlines keep their
    tightness on other hardware.
    """

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with work computed from the run's profile.

        Raises:
            TraceError: there is no profile, a job has no duration, or the profile has no throughput
                for a workload; all problems at once.
        """
        missing = durations_missing("RecomputeWork", trace)
        speeds = _speeds("RecomputeWork", trace, context, missing)
        jobs = (
            replace(job, work_samples=(job.duration_s or 0.0) * speed)
            for job, speed in zip(trace.jobs, speeds, strict=True)
        )
        known = trace.step(_note("RecomputeWork: duration x", context), jobs, ["work_samples"])
        return replace(known, work_in_slot_s=False)


@dataclass(frozen=True)
class RecomputeDurations:
    """Durations computed from work: the time to train it at the requested slots.

    duration_s = work_samples / T(requested slots) at the job's workload and global batch. It is for
    traces that have workloads but no durations, and comes before ``AssignDeadlines``.
    """

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with durations computed from the run's profile.

        Raises:
            TraceError: there is no profile, the work is in slot-seconds, or the profile has no
                throughput for a workload; all problems at once.
        """
        counted = (
            "RecomputeDurations: the trace's work is in slot-seconds, not in samples; leave the"
            " transform out, or put RecomputeWork before"
        )
        problems = [counted] if trace.work_in_slot_s else []
        speeds = _speeds("RecomputeDurations", trace, context, problems)
        jobs = (
            replace(job, duration_s=job.work_samples / speed)
            for job, speed in zip(trace.jobs, speeds, strict=True)
        )
        return trace.step(_note("RecomputeDurations: work /", context), jobs, ["duration_s"])


def _speeds(
    transform: str, trace: Trace, context: TransformContext, problems: Sequence[str]
) -> list[float]:
    """Return T(requested slots) of every job, samples per second.

    Raises:
        TraceError: ``problems`` is not empty, or a speed is unknown; all problems at once.
    """
    profile = context.profile
    if profile is None:
        raise TraceError(
            [
                f"{transform}: there is no profile to take throughput from; choose one"
                " (profile=NAME for a run, --profile NAME for the trace tools)"
            ]
        )
    problems = list(problems)
    speeds: dict[tuple[str, int, int], float] = {}
    for job in trace.jobs:
        key = _speed_key(job)
        if key in speeds:
            continue
        workload, batch, slots = key
        try:
            speeds[key] = profile.throughput(workload, batch).samples_per_s(slots)
        except ProfileError as error:
            problems += [f"{transform}: {line}" for line in error.problems]
            speeds[key] = float("nan")
            continue
        if not 0 < speeds[key] < float("inf"):
            problems.append(
                f"{transform}: profile {profile.name} has {speeds[key]} samples/s for"
                f" {workload} with batch {batch} on {slots} slots; measure that cell, or"
                " put CapDemand before"
            )
    if problems:
        raise TraceError(dict.fromkeys(problems))
    return [speeds[_speed_key(job)] for job in trace.jobs]


def _speed_key(job: JobSpec) -> tuple[str, int, int]:
    return job.workload, job.global_batch, job.requested_slots


def _note(what: str, context: TransformContext) -> str:
    assert context.profile is not None
    return f"{what} throughput of profile {context.profile.name}"
