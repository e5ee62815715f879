"""Composition root: builds everything from a configuration, runs it, and stores the run."""

from __future__ import annotations

import dataclasses
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from harness.cluster import Cluster
from harness.configuration.coerce import show
from harness.configuration.identity import input_digests
from harness.configuration.instantiate import build, is_part, signature_problems
from harness.configuration.named_classes import TARGET, import_problems, name_problem
from harness.configuration.schema import PARTS, RunConfig, hash_config, hash_json
from harness.contracts.scheduler import Placement, Requirement, Scheduler
from harness.contracts.training import WorkloadSpec
from harness.engines.setup import EngineConfig, EngineSetup, OpenEngine
from harness.errors import Problem, UserError, at
from harness.files.safe_names import run_name
from harness.machine.interrupts import Interrupted, interruptible
from harness.machine.manifest import describe_scheduler, describe_trace, environment
from harness.metrics.compute import VERSION, compute
from harness.profiles import Profile, ProfileError, load_profile
from harness.replay import Progress, replay
from harness.results.criteria import criteria_of
from harness.results.store import RunStore, StoredRun
from harness.run.compatibility import (
    ability_problems,
    device_problems,
    event_problems,
    placement_problems,
    sharing_problems,
    shown_speed_problems,
    size_problems,
)
from harness.run.live_facts import live_facts
from harness.run.logical_workers import logical_worker_problems, within_logical_workers
from harness.run.workload_check import workload_problems
from harness.trace.build import load_trace
from harness.trace.model.events import on_devices
from harness.trace.model.trace import Trace
from harness.trace.transforms import TransformContext
from harness.tracking.mirror import LockedError, Target, TrackingError, mirror

FIXED_SIZE = "fixed_size"
"""Folder next to the runs for the references of their jobs (``engine.check_reference``)."""
MEMORY = "memory_bytes_per_worker"
"""Key of a pool's entry that is not an option of the workload's class."""


@dataclass
class Library:
    """Traces and profiles already loaded, which the points of a sweep share."""

    profiles: dict[str, Profile] = field(default_factory=dict)
    traces: dict[str, Trace] = field(default_factory=dict)
    sound_workloads: set[str] = field(default_factory=set)
    """Workloads that could be built, with their options."""


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs, built but not started."""

    config: RunConfig
    run_id: str
    config_hash: str
    trace: Trace
    scheduler: Scheduler
    placement: Placement
    engine: EngineConfig
    setup: EngineSetup

    def stored(self) -> StoredRun | None:
        """Return the finished run of this configuration, if there is one.

        Raises:
            StoreError: it exists but cannot be read.
        """
        return RunStore(Path(self.config.results_dir)).find(self.run_id)

    def reusable(self) -> StoredRun | None:
        """Return the finished run, unless ``force`` asks for another one.

        Raises:
            StoreError: as for ``stored``.
        """
        return None if self.config.force else self.stored()

    @property
    def cautions(self) -> list[str]:
        """Features that a user may expect and this run will not have, each with its way out."""
        return self.engine.cautions(self.setup)


def plan(
    config: RunConfig, library: Library | None = None, *, check_workloads: bool = True
) -> Plan:
    """Build everything that a run needs, and check that it fits together.

    Args:
        config: the validated configuration.
        library: loaded traces and profiles to share with other plans.
        check_workloads: build the workloads of a live run in a separate process, to check their
            options; takes seconds.

    Raises:
        UserError: all problems at once, each with its place and the way out.
    """
    library = library or Library()
    problems: list[Problem | str] = []

    def attempt(make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (UserError, ProfileError) as error:
            problems.extend(error.problems)
            return None

    parts = {group: attempt(partial(build, getattr(config, group), group)) for group in PARTS}
    for group in PARTS:
        problems += attempt(partial(import_problems, getattr(config, group), group, group)) or []
    profile: Profile | None = attempt(partial(_profile, config, library))
    workloads = attempt(partial(read_pool, config.workload)) or {}
    shared: Cluster | None = parts["cluster"]
    cluster = None if shared is None else shared.unshared()
    trace: Trace | None = attempt(partial(_trace, config, library, profile, cluster, workloads))
    problems += signature_problems(Target, config.tracking, "tracking")[1]
    choices = config.choices
    scheduler, backend = parts["scheduler"], parts["backend"]
    if scheduler is not None and backend is not None:
        names = (choices["scheduler"], choices["backend"])
        problems += ability_problems(scheduler, backend, config.scaling, names)
    if parts["placement"] is not None and backend is not None:
        names = (choices["placement"], choices["backend"])
        problems += placement_problems(parts["placement"], backend, names)
    if scheduler is not None and shared is not None:
        names = (choices["scheduler"], choices["cluster"])
        problems += device_problems(scheduler, shared, names)
        problems += sharing_problems(scheduler, shared, names)
    if trace is not None and cluster is not None:
        places = (choices["trace"], choices["cluster"])
        problems += size_problems(trace.jobs, cluster, places)
        problems += event_problems(trace.events, cluster, places)
    if trace is None or profile is None or cluster is None or None in parts.values():
        raise UserError(problems)
    jobs, events = trace.jobs, trace.events
    if shared is not None and Requirement.SHARE_DEVICE in parts["scheduler"].requires:
        cluster = shared
        events = events if problems else on_devices(events, shared.devices)
    if backend.abilities.logical_workers:
        problems += logical_worker_problems(jobs, choices["trace"])
        jobs = within_logical_workers(jobs)
    setup = EngineSetup(
        cluster=cluster,
        jobs=jobs,
        profile=profile,
        backend=backend,
        launcher=parts["launcher"],
        workloads=workloads,
        seed=config.seed,
        run_dir=Path(config.results_dir),
        memory_bytes_per_worker=_memory(config.workload),
        scaling=config.scaling,
        repetition=config.repetition,
        events=events,
    )
    engine: EngineConfig = parts["engine"]
    place = f"engine={choices['engine']}"
    problems += [problem for text in engine.problems(setup) for problem in at(place, text)]
    unknown = shown_speed_problems(scheduler, jobs, profile, cluster, choices["scheduler"])
    told = "\n".join(map(str, problems))  # an engine that needs the same curves has reported them
    problems += [problem for problem in unknown if problem.fact not in told]
    if problems:
        raise UserError(problems)
    config_hash = hash_config(config, input_digests(config.profile, trace, profile))
    planned = Plan(
        config=config,
        run_id=run_name(choices, config_hash),
        config_hash=config_hash,
        trace=trace,
        scheduler=scheduler,
        placement=parts["placement"],
        engine=engine,
        setup=setup,
    )
    if check_workloads and engine.exclusive and planned.reusable() is None:
        _check_workloads(setup, library)
    return planned


def _check_workloads(setup: EngineSetup, library: Library) -> None:
    """Check the workloads that are used. If the whole pool is sound, remember that for other runs.

    Raises:
        UserError: a workload that is used cannot be built.
    """
    used = {name: setup.workloads[name] for name in sorted({job.workload for job in setup.jobs})}
    drawn = setup.backend.abilities.drawn_samples
    if _spec_keys(used, drawn) <= library.sound_workloads:
        return
    checked = setup.workloads
    if workload_problems(checked, drawn=drawn):
        checked = used
        if problems := workload_problems(used, drawn=drawn):
            raise UserError(problems)
    library.sound_workloads |= _spec_keys(checked, drawn)


def _spec_keys(workloads: Mapping[str, WorkloadSpec], drawn: bool) -> set[str]:
    return {
        hash_json([name, spec.target, dict(spec.options), drawn])
        for name, spec in workloads.items()
    }


def read_pool(workload: Mapping[str, Any]) -> dict[str, WorkloadSpec]:
    """Return the workloads of a pool. Their classes are not imported, because they import a
    training library.

    Raises:
        UserError: an entry does not say which class to build.
    """
    pool = workload.get("pool")
    if not isinstance(pool, Mapping) or not pool:
        fact = "has no workloads"
        way_out = "map each name to a _target_ and options"
        raise UserError([Problem("workload.pool", fact, way_out)])
    way_out = "say which class to build: package.module.Class"
    problems: list[Problem | str] = [
        Problem(
            f"workload.pool.{name}", f"has no {TARGET}", "say which class: package.module.Class"
        )
        for name, entry in pool.items()
        if not (is_part(entry) and isinstance(entry[TARGET], str))
    ]
    problems += [
        Problem(f"workload.pool.{name}.{MEMORY}", f"is {show(entry[MEMORY])}", "give bytes > 0")
        for name, entry in pool.items()
        if is_part(entry) and MEMORY in entry and not _is_size(entry[MEMORY])
    ]
    problems += [
        problem
        for name, entry in pool.items()
        if is_part(entry) and isinstance(entry[TARGET], str)
        if (problem := name_problem(entry[TARGET], "workload", f"workload.pool.{name}"))
    ]
    if problems:
        raise UserError(problems)
    return {
        name: WorkloadSpec(
            name, entry[TARGET], {k: v for k, v in entry.items() if k not in (TARGET, MEMORY)}
        )
        for name, entry in pool.items()
    }


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _memory(workload: Mapping[str, Any]) -> dict[str, int]:
    """Return the estimated memory of a worker by workload, where the pool states it."""
    pool = workload.get("pool")
    entries = pool.items() if isinstance(pool, Mapping) else ()
    return {name: entry[MEMORY] for name, entry in entries if MEMORY in entry}


def _profile(config: RunConfig, library: Library) -> Profile:
    key = hash_json(config.profile)
    if key not in library.profiles:
        library.profiles[key] = load_profile(config.profile)
    return library.profiles[key]


def _trace(
    config: RunConfig,
    library: Library,
    profile: Profile | None,
    cluster: Cluster | None,
    workloads: Mapping[str, WorkloadSpec],
) -> Trace:
    trace_config = dict(config.trace)
    if profile is None or cluster is None:  # judge at least the rows of the trace
        trace_config["transforms"] = []
    context = TransformContext(
        seed=config.seed, profile=profile, cluster=cluster, workloads=tuple(workloads)
    )
    key = hash_json([trace_config, config.seed, config.profile, config.cluster, sorted(workloads)])
    if key not in library.traces:
        library.traces[key] = load_trace(trace_config, context)
    return library.traces[key]


def execute(
    planned: Plan,
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
        "cautions": planned.cautions,
    }
    store = RunStore(Path(config.results_dir))
    with interruptible(config.max_wall_s), ExitStack() as stack:
        writer = store.create(planned.run_id, manifest, config_yaml(config))
        stack.push(writer)  # cleans up even if a signal arrives while it is being entered
        writer.__enter__()
        setup = dataclasses.replace(planned.setup, run_dir=writer.path)
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


def tell_cautions(plans: Iterable[Plan]) -> None:
    """Print the cautions of these runs on stderr, each once."""
    for text in dict.fromkeys(text for planned in plans for text in planned.cautions):
        _warn(f"caution: {text}")


def _warn(line: str) -> None:
    print(line, file=sys.stderr)


def mirror_run(run: StoredRun, tracking: Mapping[str, Any]) -> bool:
    """Mirror a stored run; if that fails, print on stderr how to do it later.

    Returns:
        False if another process has the store locked: the next run would wait for it as long.
    """
    try:
        mirror(run, tracking)
    except TrackingError as error:
        print(f"warning: {error}", file=sys.stderr)
        return not isinstance(error, LockedError)
    return True


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
