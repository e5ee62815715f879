"""Stored runs as the answer reads them, made in memory from the numbers of a worked example."""

from __future__ import annotations

from pathlib import Path

from harness.results.store import StoredRun


def stored(
    *,
    scheduler: str = "fifo",
    backend: str = "stop_resume",
    trace: str = "itp195",
    seed: int = 0,
    repetition: int = 0,
    live: bool = False,
    load: float | None = None,
    options: dict[str, object] | None = None,
    checked: str = "exact",
    oracle: bool = False,
    **metrics: float,
) -> StoredRun:
    """A run whose tables were left out, with these metrics."""
    engine = "live" if live else "simulated"
    choices = {"scheduler": scheduler, "backend": backend, "trace": trace, "engine": engine}
    config = {
        "choices": choices,
        "scheduler": {"_target_": f"systems.schedulers.{scheduler}.X", **(options or {})},
        "backend": {"_target_": f"systems.backends.{backend}.X"},
        "trace": {"name": trace, **({} if load is None else {"transforms": [{"load": load}]})},
        "engine": {"_target_": f"harness.engines.{engine}.X"},
        "seed": seed,
        "repetition": repetition,
    }
    at = "" if load is None else f"-{load}"
    extra = "".join(f"-{value}" for value in (options or {}).values())
    run_id = f"{trace}{at}-{scheduler}{extra}-{backend}-{engine}-s{seed}-r{repetition}"
    manifest = {
        "run_id": run_id,
        "choices": choices,
        "seed": seed,
        "repetition": repetition,
        "scheduler": {"checked": checked, "oracle": oracle},
        "left_out": {"jobs": 1, "changes": 1},
        "trace": {"digest": f"{trace}{at} {seed}"},
        "profile": {"digest": "one"},
    }
    run = StoredRun(Path(run_id), manifest, config, {"jobs_submitted": 10.0, **metrics})
    run.__dict__["facts"] = {"steps_executed": 100.0} if live else {}
    return run
