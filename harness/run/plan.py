"""Plan of a run: builds everything from a configuration, and checks that it fits together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.configuration.instantiate import build, signature_problems
from harness.configuration.named_classes import import_problems
from harness.configuration.schema import PARTS, RunConfig, hash_config, hash_json
from harness.contracts.placement import Placement
from harness.contracts.scheduler import Requirement, Scheduler
from harness.contracts.workload import WorkloadSpec
from harness.engines.setup import EngineConfig, EngineSetup
from harness.errors import Problem, UserError, at
from harness.files.safe_names import run_name
from harness.profiles import Profile, load_profile
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
from harness.run.input_digests import input_digests
from harness.run.logical_workers import logical_worker_problems, within_logical_workers
from harness.run.workload_check import workload_problems
from harness.run.workload_pool import memory_by_workload, read_pool
from harness.trace.build import load_trace
from harness.trace.model.events import on_devices
from harness.trace.model.trace import Trace
from harness.trace.transforms import TransformContext
from harness.tracking.mirror import Target


@dataclass
class Library:
    """Traces and profiles already loaded, which the points of a sweep share."""

    profiles: dict[str, Profile] = field(default_factory=dict)
    traces: dict[str, Trace] = field(default_factory=dict)
    sound_workloads: set[str] = field(default_factory=set)
    """Workloads that could be built, with their options."""


@dataclass(frozen=True)
class RunPlan:
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
            StoreError: the run exists but cannot be read.
        """
        return RunStore(Path(self.config.results_dir)).find(self.run_id)

    def reusable(self) -> StoredRun | None:
        """Return the finished run, unless ``force`` asks for another one.

        Raises:
            StoreError: as for ``stored``.
        """
        return None if self.config.force else self.stored()

    @property
    def warnings(self) -> list[str]:
        """Warnings about features that a user may expect but this run will not have, each with a
        remedy."""
        return self.engine.warnings(self.setup)


def plan(
    config: RunConfig, library: Library | None = None, *, check_workloads: bool = True
) -> RunPlan:
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
        except UserError as error:
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
        memory_bytes_per_worker=memory_by_workload(config.workload),
        scaling=config.scaling,
        repetition=config.repetition,
        events=events,
    )
    engine: EngineConfig = parts["engine"]
    place = f"engine={choices['engine']}"
    problems += [problem for text in engine.problems(setup) for problem in at(place, text)]
    unknown = shown_speed_problems(scheduler, jobs, profile, cluster, choices["scheduler"])
    told = "\n".join(
        map(str, problems)
    )  # the engine needs the same curves and has reported them already
    problems += [problem for problem in unknown if problem.fact not in told]
    if problems:
        raise UserError(problems)
    config_hash = hash_config(config, input_digests(config.profile, trace, profile))
    planned = RunPlan(
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
    if profile is None or cluster is None:  # check at least the rows of the trace
        trace_config["transforms"] = []
    context = TransformContext(
        seed=config.seed, profile=profile, cluster=cluster, workloads=tuple(workloads)
    )
    key = hash_json([trace_config, config.seed, config.profile, config.cluster, sorted(workloads)])
    if key not in library.traces:
        library.traces[key] = load_trace(trace_config, context)
    return library.traces[key]
