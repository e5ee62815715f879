"""Estimate of a run's duration."""

from __future__ import annotations

from pathlib import Path

from harness.results.store import StoreError, load_run
from harness.run.plan import RunPlan


def estimate_wall_s(planned: RunPlan) -> float:
    """Return the expected wall-clock seconds: those of the latest similar run, or the engine's
    guess.

    A run is similar if the same options were chosen for trace, scheduler, backend and engine.
    """
    root = Path(planned.config.results_dir)
    alike = planned.run_id.rpartition("-")[0]
    paths = list(root.glob(f"{alike}-" + "?" * 10))
    for path in sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True):
        try:
            metrics = load_run(path).metrics
        except StoreError:
            continue
        if "replay_wall_s" in metrics:
            return metrics["replay_wall_s"] + metrics.get("reference_wall_s", 0.0) + 2.0
    return planned.engine.estimated_wall_s(planned.setup)
