"""Outcomes that a trace recorded itself, for comparison with those of its replay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from harness.results.store import StoredRun
from harness.trace.model.trace import Trace

KEY = "as_recorded"
"""Key in a manifest's description of its trace."""


def recorded_metrics(trace: Trace) -> dict[str, float] | None:
    """Return ``jobs``, ``jct_mean_s``, ``queueing_mean_s`` and ``makespan_s`` as recorded.

    Jobs without a recorded start or duration are left out. None: no job has both.
    """
    waits_s = trace.recorded_wait_s
    found = [
        (job.arrival_s, waits_s[job.job_id], job.duration_s)
        for job in trace.jobs
        if job.job_id in waits_s and job.duration_s is not None
    ]
    if not found:
        return None
    ends_s = [arrival_s + wait_s + duration_s for arrival_s, wait_s, duration_s in found]
    return {
        "jobs": float(len(found)),
        "jct_mean_s": fmean(wait_s + duration_s for _, wait_s, duration_s in found),
        "queueing_mean_s": fmean(wait_s for _, wait_s, _ in found),
        "makespan_s": max(ends_s) - min(arrival_s for arrival_s, _, _ in found),
    }


def recorded_rows(runs: Iterable[StoredRun]) -> dict[str, dict[str, float]]:
    """Return a row ``as recorded`` for each trace of some runs: its label, and its metrics.

    Runs whose rows would be the same share one. Traces with the same name are distinguished by a
    digest.
    """
    seen: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        trace = run.manifest.get("trace") or {}
        if trace.get(KEY):
            shown = json.dumps(trace[KEY], sort_keys=True)
            key = (str(trace.get("name")), _extent(trace), shown)
            seen.setdefault(key, []).append(trace)
    names = Counter(name for name, _, _ in seen)
    rows: dict[str, dict[str, float]] = {}
    for (name, extent, _), traces in seen.items():
        label = "as recorded"
        if len(seen) > 1:
            label += f": {name}"
        if names[name] > 1:
            label += f", contents {min(str(trace.get('digest')) for trace in traces)[:8]}"
        rows[label + extent] = {key: traces[0][KEY][key] for key in traces[0][KEY] if key != "jobs"}
    return rows


def _extent(trace: Mapping[str, Any]) -> str:
    """Return the number of jobs with recorded outcomes, for a label; "" if all have them."""
    num_jobs = trace[KEY]["jobs"]
    is_part = num_jobs < trace.get("num_jobs", 0)
    return f" ({num_jobs:,.0f} of {trace['num_jobs']:,} jobs)" if is_part else ""


def recorded_lines(runs: Iterable[StoredRun]) -> list[str]:
    """Return the rows of ``recorded_rows`` as lines of text."""
    return [
        f"{label[0].upper()}{label[1:]}: JCT mean {metrics['jct_mean_s']:,.1f} s, queueing mean"
        f" {metrics['queueing_mean_s']:,.1f} s, makespan {metrics['makespan_s']:,.1f} s"
        for label, metrics in recorded_rows(runs).items()
    ]
