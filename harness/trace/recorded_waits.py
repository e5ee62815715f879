"""Recorded waits of jobs, which the transforms of a trace may make void."""

from __future__ import annotations

from collections.abc import Mapping

from harness.trace.trace import Trace

_DIGITS = 6
"""Times of one trace that differ by less than a microsecond are one, whatever was rounded."""


def still_recorded(before: Trace, after: Trace) -> Mapping[str, float]:
    """Return the recorded waits of the jobs that are left after a trace's transforms.

    None is left if a transform has changed when jobs arrive relative to each other, or how long
    they run: what was recorded says nothing of such jobs.
    """
    old = {job.job_id: job for job in before.jobs}
    shifts = set()
    for job in after.jobs:
        source = old.get(job.job_id)
        if source is None or source.duration_s != job.duration_s:
            return {}
        shifts.add(round(job.arrival_s - source.arrival_s, _DIGITS))
    if len(shifts) > 1:
        return {}
    waits_s = before.recorded_wait_s
    return {job.job_id: waits_s[job.job_id] for job in after.jobs if job.job_id in waits_s}
