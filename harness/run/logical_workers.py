"""Limits and checks for jobs with a fixed number of logical workers, on virtual-worker backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.contracts.job import JobSpec
from harness.errors import Problem

_FEW = 3


def within_logical_workers(jobs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
    """Return the jobs with at most as many slots as logical workers, because more slots would be
    idle."""
    return tuple(_capped(job) for job in jobs)


def _capped(job: JobSpec) -> JobSpec:
    most = job.num_logical_workers
    if job.max_slots is not None:
        most = min(most, job.max_slots)
    return job if job.max_slots == most else replace(job, max_slots=max(most, job.min_slots))


def logical_worker_problems(jobs: Sequence[JobSpec], trace: str) -> list[Problem | str]:
    """Return the jobs that cannot be divided among their logical workers.

    Args:
        jobs: jobs of the trace, as they will be replayed.
        trace: chosen option of the trace, for the text.
    """
    found: list[Problem | str] = []
    for what, bad, hint in (
        (
            "a smaller batch than logical workers",
            [job for job in jobs if job.global_batch < job.num_logical_workers],
            "raise global_batch, or lower logical_workers",
        ),
        (
            "more min_slots than logical workers",
            [job for job in jobs if job.min_slots > job.num_logical_workers],
            "lower min_slots, or raise logical_workers",
        ),
    ):
        if bad:
            names = ", ".join(job.job_id for job in bad[:_FEW])
            more = ", ..." if len(bad) > _FEW else ""
            fact = f"{len(bad)} of {len(jobs)} jobs have {what} ({names}{more})"
            found.append(Problem(f"trace={trace}", fact, f"{hint}, or choose another backend"))
    return found
