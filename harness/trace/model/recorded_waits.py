"""Selection of the recorded waits that remain valid after the transforms of a trace."""

from __future__ import annotations

from collections.abc import Mapping

from harness.trace.model.trace import Trace

_DIGITS = 6
"""Decimals to which times are rounded, so that rounding errors below a microsecond do not count."""


def still_recorded(before: Trace, after: Trace) -> Mapping[str, float]:
    """Return the recorded waits of the remaining jobs if they are still valid after the transforms.

    The result is empty if a transform changed how long jobs run, or when they arrive relative to
    each other: the recorded waits do not apply to such jobs.
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
