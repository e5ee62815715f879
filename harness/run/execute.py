"""Execution of a plan: the replay, and the storage of its records."""

from __future__ import annotations

import dataclasses
import resource
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.schema import RunConfig
from harness.engines.setup import OpenEngine
from harness.machine.interrupts import Interrupted, interruptible
from harness.machine.manifest import environment
from harness.metrics.compute import VERSION, compute
from harness.replay import Progress, replay
from harness.results.criteria import criteria_of
from harness.results.store import RunStore, StoredRun
from harness.run.live_facts import live_facts
from harness.run.manifest_entries import describe_scheduler, describe_trace
from harness.run.plan import RunPlan
from harness.tracking.mirror import LockedError, TrackingError, describe, mirror

FIXED_SIZE = "fixed_size"
"""Folder next to the runs for the references of their jobs (``engine.check_reference``)."""


def execute(
    planned: RunPlan,
    command: list[str] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Run a plan and store its records; return the run's directory.

    On Ctrl-C, SIGTERM or at ``max_wall_s`` the engine is closed, nothing is stored, and
    ``Interrupted`` is raised.

    Args:
        planned: a plan from ``plan``; its objects serve one run.
        command: words of the command line, for the manifest.
        on_progress: called by the replay from time to time.
        say: shows a line about the work after the replay.
    """
    config = planned.config
    manifest = {
        **environment(command if command is not None else sys.argv),
        "config_hash": planned.config_hash,
        "name": config.name,
        "sweep": config.sweep,
        "criteria": criteria_of(config.sweep),
        "choices": dict(config.choices),
        "seed": config.seed,
        "repetition": config.repetition,
        "scheduler": describe_scheduler(planned.scheduler),
        "trace": describe_trace(planned.trace),
        "profile": dict(planned.setup.profile.provenance),
        "metrics_version": VERSION,
        "warnings": planned.warnings,
    }
    store = RunStore(Path(config.results_dir))
    with interruptible(config.max_wall_s), ExitStack() as stack:
        writer = store.create(planned.run_id, manifest, config_yaml(config))
        stack.push(
            writer
        )  # the engine is closed even if a signal arrives while the block is entered
        writer.__enter__()
        setup = dataclasses.replace(planned.setup, run_dir=writer.path, run_id=planned.run_id)
        engine = planned.engine.open(setup)
        try:
            records = replay(
                jobs=setup.jobs,
                cluster=setup.cluster,
                scheduler=planned.scheduler,
                placement=planned.placement,
                engine=engine,
                profile=setup.profile,
                scaling=config.scaling,
                on_progress=on_progress,
                shown=setup.profile.as_shown(config.seed),
            )
        finally:
            _close(engine)
        planned.engine.check(setup, records, Path(config.results_dir).parent / FIXED_SIZE, say)
        records.facts.setdefault("peak_memory_bytes", _peak_memory_bytes())
        if planned.engine.exclusive:
            records.facts.update(live_facts(planned, records))
        stored = writer.finish(records, compute(records))
    return stored.path


def print_warnings(plans: Iterable[RunPlan]) -> None:
    """Print the warnings of these runs on stderr, each once."""
    for text in dict.fromkeys(text for planned in plans for text in planned.warnings):
        _warn(f"warning: {text}")


def _warn(line: str) -> None:
    print(line, file=sys.stderr)


def mirror_run(run: StoredRun, tracking: Mapping[str, Any], name: str = "") -> bool:
    """Copy a stored run to MLflow; if that fails, print on stderr how to do it later.

    Args:
        run: the run.
        tracking: tracking configuration.
        name: its name in lists; "": the run is named alone.

    Returns:
        False if another process has locked the MLflow store: the next run would wait for the lock
        too.
    """
    try:
        mirror(run, tracking, name)
    except TrackingError as error:
        print(f"warning: {error}", file=sys.stderr)
        return not isinstance(error, LockedError)
    return True


def describe_runs(runs: Sequence[StoredRun], tracking: Mapping[str, Any]) -> None:
    """Write a sweep's answer into MLflow; if that fails, print on stderr how to do it later."""
    try:
        describe(runs, tracking)
    except TrackingError as error:
        print(f"warning: {error}", file=sys.stderr)


def _peak_memory_bytes() -> float:
    """Return the most resident memory of this process so far (Linux counts in KiB)."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _close(engine: OpenEngine) -> None:
    """Close the engine, even if a first Ctrl-C arrives in the middle of it."""
    try:
        engine.close()
    except Interrupted:
        engine.close()
        raise


def config_yaml(config: RunConfig) -> str:
    """Return the resolved configuration as YAML; ``--from`` runs it again."""
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
