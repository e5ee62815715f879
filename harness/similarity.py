"""How like the original a scaled-down replay is.

Scaling a trace down changes it. These numbers stand beside each other for the trace as it
was recorded and for the trace as it is replayed; comparisons between runs make sense where
they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from harness.trace.job import JobSpec


@dataclass(frozen=True, slots=True)
class Similarity:
    """Ratios without a unit; None where the trace lacks what they need."""

    load: float | None
    """Slot-seconds asked over slots times the span of the submissions."""
    demand_share: float
    """Mean requested slots over the slots of the cluster."""
    rescale_share: float | None
    """Cost of one rescale (pause, seconds) over the median job's run time."""

    def facts(self, prefix: str) -> dict[str, float]:
        """The numbers that are known, named for the records."""
        values = {
            "load": self.load,
            "demand_share": self.demand_share,
            "rescale_share": self.rescale_share,
        }
        return {f"{prefix}_{name}": value for name, value in values.items() if value is not None}


def similarity(
    jobs: Sequence[JobSpec], num_slots: int, durations_s: Sequence[float], rescale_s: float | None
) -> Similarity:
    """Similarity numbers of a trace on a cluster.

    ``durations_s`` are run times at the requested slots, one a job and in the same order
    (recorded ones, or those of the profile); empty where they are not known. ``rescale_s``
    is the pause of a typical rescale, if known.
    """
    span_s = max(job.arrival_s for job in jobs) - min(job.arrival_s for job in jobs)
    load = None
    if durations_s and span_s > 0:
        asked = sum(
            job.requested_slots * seconds for job, seconds in zip(jobs, durations_s, strict=True)
        )
        load = asked / (num_slots * span_s)
    share = None
    if durations_s and rescale_s is not None:
        share = rescale_s / median(durations_s)
    return Similarity(load, fmean(job.requested_slots for job in jobs) / num_slots, share)
