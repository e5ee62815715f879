"""Size of the state that a job moves."""

from __future__ import annotations

from reports.runs.selection import ReportRun

STATE_BYTES = "state_bytes"
"""Key of the option that gives the size of a workload's state, in the pool of workloads."""


def state_bytes(run: ReportRun) -> float | None:
    """Return the bytes of parameters and optimizer state of the only workload that gives them.

    The result is None for a simulated run, or if no workload or several give them.
    """
    pool = run.stored.config.get("workload", {}).get("pool", {})
    own = [options[STATE_BYTES] for options in pool.values() if STATE_BYTES in options]
    return float(own[0]) if run.is_live and len(own) == 1 else None
