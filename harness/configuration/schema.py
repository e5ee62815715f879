"""Typed, validated configuration of a run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.configuration.benchmark_version import BENCHMARK_VERSION, FIRST_VERSION, KEY
from harness.configuration.coerce import MismatchError, coerce, show
from harness.configuration.identity import portable
from harness.configuration.moved_modules import with_current_names
from harness.errors import Problem, UserError, suggest

GROUPS = (
    "trace",
    "workload",
    "cluster",
    "placement",
    "scheduler",
    "backend",
    "engine",
    "profile",
    "launcher",
    "tracking",
)
"""Configuration groups, one per interface; each is a folder of ``configs/``."""

PARTS = ("cluster", "placement", "scheduler", "backend", "engine", "launcher")
"""Groups whose option is a part: ``_target_`` and the options of its class."""

Check = Callable[[Any], str | None]


def _at_least_0(value: int) -> str | None:
    return None if value >= 0 else "use a number from 0 up"


def _positive(value: float | None) -> str | None:
    return None if value is None or value > 0 else "use a number above 0, or null for no limit"


def _not_empty(value: str) -> str | None:
    return None if value.strip() else "name a folder, for example results/runs"


def _key(help_text: str, check: Check | None = None, determines: bool = False) -> Any:
    """Return a top-level key with its ``--help`` text, its range check and whether results depend
    on it."""
    return field(metadata={"help": help_text, "check": check, "determines": determines})


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Configuration of one run. Defaults are only in ``configs/config.yaml``."""

    trace: Mapping[str, Any]
    workload: Mapping[str, Any]
    cluster: Mapping[str, Any]
    placement: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    backend: Mapping[str, Any]
    engine: Mapping[str, Any]
    profile: Mapping[str, Any]
    launcher: Mapping[str, Any]
    tracking: Mapping[str, Any]
    choices: Mapping[str, str]
    """Name of the chosen option of every group."""
    seed: int = _key("names every random stream of the run", _at_least_0, determines=True)
    repetition: int = _key(
        "number of this trial of the same configuration, from 0", _at_least_0, determines=True
    )
    scaling: Literal["strong", "weak", "adaptive"] = _key(
        "strong: global batch fixed; weak: batch per slot; adaptive: chosen",
        determines=True,
    )
    name: str | None = _key("label of the run, shown in tables and MLflow")
    sweep: str | None = _key("label of its sweep; -m makes one if none is given")
    results_dir: str = _key("folder of the stored runs", _not_empty)
    max_wall_s: float | None = _key(
        "seconds of wall clock after which the run is stopped", _positive
    )
    force: bool = _key("run again even if the same run is stored")
    dry: bool = _key("print what would run, and how long it may take; start nothing")
    progress: bool = _key("show progress while running")


KEYS: Mapping[str, dataclasses.Field[Any]] = {
    f.name: f for f in dataclasses.fields(RunConfig) if "help" in f.metadata
}
"""Top-level keys other than the groups."""


RETIRED: Mapping[str, str] = {
    "snapshot_every_s": "leave it out: a run that was stopped begins again, and a sweep "
    "continues after the points that are stored",
}
"""Keys of earlier versions, with advice on what to do instead. In stored configurations they have
no effect."""


def read_config(
    container: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[RunConfig | None, list[Problem | str]]:
    """Return the typed configuration of a composed container, and everything wrong with it.

    Args:
        container: plain dictionaries and values, as ``compose`` returns them.
        defaults: replacements of wrong values, so that the rest can be judged.

    Returns:
        The configuration, None if a group is missing or no mapping; and the problems.
    """
    hints = typing.get_type_hints(RunConfig)
    fields = {f.name: f for f in dataclasses.fields(RunConfig)}
    problems: list[Problem | str] = [
        Problem(str(key), "unknown key", suggest(str(key), [n for n in fields if n != "choices"]))
        for key in container
        if key not in fields
    ]
    container = with_current_names(container)
    values: dict[str, Any] = {}
    for name, spec in fields.items():
        if name not in container:
            problems.append(Problem(name, "is missing", f"give {name}=..."))
        else:
            try:
                values[name] = _read_value(name, container[name], hints[name], spec)
                continue
            except UserError as error:
                problems += error.problems
        if name in defaults:
            values[name] = coerce(defaults[name], hints[name])
    return (RunConfig(**values) if len(values) == len(fields) else None), problems


def _read_value(name: str, value: Any, annotation: Any, spec: dataclasses.Field[Any]) -> Any:
    try:
        fitted = coerce(value, annotation)
    except MismatchError as mismatch:
        raise UserError([Problem(name, f"is {show(value)}", f"give {mismatch}")]) from None
    check: Check | None = spec.metadata.get("check")
    hint = check(fitted) if check else None
    if hint:
        raise UserError([Problem(name, f"is {show(value)}", hint)])
    return fitted


def hash_config(config: RunConfig, digests: Mapping[str, str]) -> str:
    """Return the SHA-256 of the canonical JSON of everything that determines the results.

    Labels, folders, limits, tracking and display are left out. So are the paths of the user's own
    trace and profile, because their digests count. The version of the benchmark counts, except the
    first: its manifests had no version yet, and its runs keep their hashes.

    Args:
        config: configuration of the run.
        digests: digests of the data behind it, by name (``trace``, ``profile``).
    """
    groups = portable({group: getattr(config, group) for group in GROUPS if group != "tracking"})
    keys = {n: getattr(config, n) for n, f in KEYS.items() if f.metadata["determines"]}
    is_first = BENCHMARK_VERSION == FIRST_VERSION
    version = {} if is_first else {KEY: BENCHMARK_VERSION}
    return hash_json({**groups, **keys, **version, "digests": dict(digests)})


def hash_json(value: Any) -> str:
    """Return the SHA-256 (hexadecimal) of the canonical JSON of ``value``."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
