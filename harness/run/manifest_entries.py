"""Entries of a run's manifest on its scheduler and its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from harness.comparison.as_recorded import KEY, recorded_metrics


def describe_scheduler(scheduler: Any) -> Mapping[str, Any]:
    """Return the scheduler's verification level, and whether the scheduler is a bound.

    The level is a ``contracts.scheduler.Checked``, or None if the scheduler states none.
    """
    return {
        "checked": getattr(scheduler, "checked", None),
        "oracle": getattr(scheduler, "oracle", False),
    }


def describe_trace(trace: Any) -> Mapping[str, Any]:
    """Return the manifest's entry on the trace that was replayed (a ``harness.trace`` Trace)."""
    return {
        "name": trace.name,
        "source": trace.source,
        "licence": trace.licence,
        "digest": trace.digest,
        "files_digest": trace.files_digest,
        "num_jobs": len(trace.jobs),
        "num_events": len(trace.events),
        "history": list(trace.history),
        "generated": sorted(trace.generated),
        "workloads": dict(sorted(Counter(job.workload for job in trace.jobs).items())),
        KEY: recorded_metrics(trace),
    }
