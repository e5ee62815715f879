"""Similarity of a scaled-down replay to its original trace.

Scaling a trace down changes it. These numbers are computed both for the recorded trace and for the
replayed trace. Runs can be compared if the numbers agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean, median

from harness.contracts.job import JobSpec
from harness.profiles import Profile, ProfileError

MEANINGS = {
    "load": "requested slot-seconds over slots x span of the submissions",
    "demand_share": "mean requested slots over slots of the cluster",
    "communication_share": "mean of 1 - T(w) / (w T(1)) at the requested slots",
    "rescale_share": "mean stopping time of a rescale over the median run time",
}
"""Similarity numbers with their meanings; all are ratios without a unit."""


def similarity(
    jobs: Sequence[JobSpec],
    num_slots: int,
    profile: Profile | None = None,
    rescale_s: float | None = None,
) -> dict[str, float]:
    """Return the numbers of ``MEANINGS`` that can be computed for a trace on a cluster.

    Args:
        jobs: the trace.
        num_slots: slots of its cluster.
        profile: curves of its workloads; None, or a profile that lacks some of them: the share of
            communication is left out.
        rescale_s: stopping time of a typical rescale on the clock of the trace, if known.
    """
    numbers = {"demand_share": fmean(job.requested_slots for job in jobs) / num_slots}
    durations_s = [job.duration_s for job in jobs if job.duration_s is not None]
    if len(durations_s) == len(jobs):
        span_s = max(job.arrival_s for job in jobs) - min(job.arrival_s for job in jobs)
        if span_s > 0:
            asked = sum(
                job.requested_slots * seconds
                for job, seconds in zip(jobs, durations_s, strict=True)
            )
            numbers["load"] = asked / (num_slots * span_s)
        if rescale_s is not None:
            numbers["rescale_share"] = rescale_s / median(durations_s)
    if profile is not None:
        with suppress(ProfileError):  # a workload without a curve: the share is unknown
            numbers["communication_share"] = fmean(
                _communication_share(job, profile) for job in jobs
            )
    return numbers


def _communication_share(job: JobSpec, profile: Profile) -> float:
    curve = profile.throughput(job.workload, job.global_batch)
    slots = job.requested_slots
    return 1.0 - curve.samples_per_s(slots) / (slots * curve.samples_per_s(1))


def similarity_lines(facts: Mapping[str, float]) -> list[str]:
    """Return the ``similarity_`` facts of a run next to those of the original, one per line."""
    lines = []
    for name, meaning in MEANINGS.items():
        here, there = facts.get(f"similarity_{name}"), facts.get(f"similarity_{name}_original")
        if here is not None or there is not None:
            shown = ["not known" if value is None else f"{value:.3g}" for value in (here, there)]
            lines.append(f"{name} {shown[0]}, original {shown[1]} ({meaning})")
    return lines
