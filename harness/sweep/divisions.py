"""Closed and open division: conditions under which a set of results is compared with others.

*Closed*: the work is that of a shipped study. Trace, workloads, cluster, placement, profile,
engine, launcher, seeds and repetitions are the study's. So are the jobs with their work and
deadlines, and the criteria that judge them. Scheduler and backend are free. If a study runs under
the ``scripted`` scheduler, the script is the work, and only the backend is free. *Open*: any
configuration, whole and sound, of one version of the benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.benchmark_version import BENCHMARK_VERSION, VersionError, one_version
from harness.configuration.compose import options
from harness.configuration.schema import RunConfig
from harness.configuration.study import Study, load_study
from harness.errors import Problem, suggest
from harness.results.criteria import criteria_of
from harness.results.store import StoredRun
from harness.run.plan import Library, plan
from harness.sweep.runner import read_words

CLOSED, OPEN = "closed", "open"

_FIXED = ("trace", "workload", "cluster", "placement", "engine", "profile", "launcher")
_TRIAL = ("scaling", "seed", "repetition")
_SCRIPTED = "scripted"
_POOL = "workload.pool."
_SHOWN = 3
"""Number of differences that a message names for a run that is no point of its study."""

Cell = str
"""Fixed part of a point, as canonical JSON."""


@dataclass(frozen=True)
class Work:
    """One point of a study without the system that does it."""

    options: Mapping[str, str]
    """Everything that is fixed, by dotted key."""
    trace_digest: str
    """Digest of the jobs, with their arrivals, work and deadlines."""
    profile_digest: str


def check(
    runs: Sequence[StoredRun], division: str, study: str | None = None
) -> list[Problem | str]:
    """Return why a set of results cannot be in a division; empty if it can.

    ``harness.validate`` checks whether each run is sound.

    Args:
        runs: the results.
        division: ``closed`` or ``open``.
        study: the shipped study that the results claim to be; None: the study in their manifests.
    """
    problems: list[Problem | str] = []
    try:
        version = one_version([run.manifest for run in runs], "the set")
    except VersionError as error:
        return [str(error)]
    if version != BENCHMARK_VERSION:
        fact = f"are of version {version} of the benchmark, this is {BENCHMARK_VERSION}"
        problems.append(Problem("the runs", fact, "check them with the program of their version"))
    if division == OPEN or problems:
        return problems
    for name, own in sorted(_by_study(runs, study).items()):
        if name not in options("study"):
            place = f"{len(own)} runs of {name or 'no study'}"
            hint = f"name the study with --study; {suggest(name, options('study'))}"
            problems.append(Problem(place, "are not of a shipped study", hint))
            continue
        problems += closed_problems(own, load_study(name))
    return problems


def _by_study(runs: Sequence[StoredRun], study: str | None) -> dict[str, list[StoredRun]]:
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        found.setdefault(study or str(run.manifest.get("sweep") or ""), []).append(run)
    return found


def closed_problems(runs: Sequence[StoredRun], study: Study) -> Iterator[Problem | str]:
    """Yield each reason why runs are not a complete closed result of a study."""
    configs = [read_words([*study.base, *point.overrides]) for point in study.points()]
    is_scripted = all(config.choices["scheduler"] == _SCRIPTED for config in configs)
    library, planned = Library(), {}
    for config in configs:
        key = json.dumps(_fixed(_as_mapping(config), is_scripted))
        if key not in planned:
            planned[key] = plan(config, library, check_workloads=False)
    used = frozenset(job.workload for each in planned.values() for job in each.trace.jobs)
    shipped: dict[str, set[Cell]] = {}
    works: dict[Cell, Work] = {}
    for config in configs:
        values = _fixed(_as_mapping(config), is_scripted, used)
        cell = json.dumps(values)
        point = planned[json.dumps(_fixed(_as_mapping(config), is_scripted))]
        works[cell] = Work(values, point.trace.digest, point.setup.profile.digest)
        shipped.setdefault(_system(_as_mapping(config), is_scripted), set()).add(cell)
    kept = criteria_of(study.name)
    done: dict[str, set[Cell]] = {}
    for run in runs:
        values = _fixed(run.config, is_scripted, used)
        cell = json.dumps(values)
        if cell not in works:
            yield _no_point(run, values, works.values(), study)
            continue
        yield from _other_data(run, works[cell])
        criteria = run.manifest.get("criteria")
        if criteria and run.manifest.get("sweep") == study.name and criteria != kept:
            fact = "was made under other criteria of the study"
            yield Problem(run.run_id, fact, "run the point again")
        done.setdefault(_system(run.config, is_scripted), set()).add(cell)
    for system, cells in sorted(done.items()):
        lacking = min((len(wanted - cells) for wanted in shipped.values()), default=0)
        if lacking:
            points = "1 point" if lacking == 1 else f"{lacking} points"
            fact = f"{points} of {study.name} {'has' if lacking == 1 else 'have'} no run"
            yield Problem(_name(system), fact, "run every point, seed and repetition of it")


def _no_point(
    run: StoredRun, values: Mapping[str, str], works: Iterable[Work], study: Study
) -> Problem:
    """Return the differences between a run and the nearest point of a study."""
    keys, wanted = min(
        ((_differing(values, work.options), work.options) for work in works),
        key=lambda found: len(found[0]),
    )
    texts = [
        f"{key} is {values.get(key, 'not there')}, the study's is {wanted.get(key, 'not there')}"
        for key in keys[:_SHOWN]
    ]
    more = f", and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    hint = "leave it as it is, or submit to the open division"
    return Problem(run.run_id, f"is no point of {study.name}: {', '.join(texts)}{more}", hint)


def _differing(values: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    return sorted(key for key in {*values, *others} if values.get(key) != others.get(key))


def _other_data(run: StoredRun, work: Work) -> Iterator[Problem]:
    """Yield the files behind the configuration that differ from the shipped ones."""
    for what, wanted in (("trace", work.trace_digest), ("profile", work.profile_digest)):
        found = (run.manifest.get(what) or {}).get("digest")
        if found != wanted:
            fact = f"its {what} has the digest {str(found)[:12]}, the study's {wanted[:12]}"
            yield Problem(run.run_id, fact, f"use the shipped {what}, or the open division")


def _as_mapping(config: RunConfig) -> Mapping[str, Any]:
    names = (*_FIXED, *_TRIAL, "scheduler", "backend", "choices")
    return {name: getattr(config, name) for name in names}


def _fixed(
    config: Mapping[str, Any], is_scripted: bool, used: Collection[str] | None = None
) -> dict[str, str]:
    """Return the fixed part of a configuration (the work), by dotted key, as texts.

    Args:
        config: configuration of a point or a run.
        is_scripted: true if the scheduler is part of the work.
        used: workloads that the jobs use; others of the pool are left out. None: all.
    """
    groups = (*_FIXED, *(["scheduler"] if is_scripted else []), *_TRIAL)
    found = dict(sorted(pair for name in groups for pair in _flat(config.get(name), name)))
    if used is None:
        return found
    return {
        key: text
        for key, text in found.items()
        if not key.startswith(_POOL) or key.removeprefix(_POOL).partition(".")[0] in used
    }


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}")
    elif isinstance(value, list | tuple) and value:
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{prefix}.{number}")
    else:
        yield prefix, json.dumps(value, default=str)


def _system(config: Mapping[str, Any], is_scripted: bool) -> str:
    """Return scheduler and backend with their options; a script is not part of the system."""
    parts = {"backend": config.get("backend")}
    if not is_scripted:
        parts["scheduler"] = config.get("scheduler")
    return json.dumps(parts, sort_keys=True, default=str)


def _name(system: str) -> str:
    """Return the classes of a system, as text."""
    parts = json.loads(system)
    targets = [str((parts.get(part) or {}).get("_target_", "?")) for part in sorted(parts)]
    return " with ".join(target.rpartition(".")[2] for target in targets)
