"""Rules for the documents of a stored run, checked once when a run is opened.

A folder of results may come from anywhere. Its later readers (validation, comparison, report,
tracking) rely on the types of its values. They put a run's id and label into paths, and look up
options by key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from harness.configuration.fast_yaml import MOST_DEPTH
from harness.configuration.schema import GROUPS
from harness.results.tables import TABLES

_RUN_ID = re.compile(r"[\w+~ -][\w.+~ -]*")
"""Pattern of run ids from ``file_names.run_name``, which name folders and occur in searches of
MLflow."""
_FOLDER = r"(?!\.+(?:/|$))[^/\x00-\x1f\x7f]+"
_LABEL = re.compile(rf"{_FOLDER}(?:/{_FOLDER})*")
"""Pattern of labels of a study or sweep, which name a folder of a report, below that of all
studies."""
_MOST_LETTERS = 200

_OUTCOMES = ("jobs", "jct_mean_s", "queueing_mean_s", "makespan_s")

Kind = tuple[str, Callable[[Any], bool]]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _number(value: Any) -> bool:
    return (isinstance(value, float) and math.isfinite(value)) or _whole(value)


def _date(value: Any) -> bool:
    try:
        datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def _named(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: (
        _text(value) and bool(pattern.fullmatch(value)) and len(value) <= _MOST_LETTERS
    )


def _each(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def _mapping(key: Callable[[Any], bool], kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping) and all(map(key, value)) and all(map(kind, value.values()))
    )


def _has(*keys: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and set(keys) <= value.keys()


def _anything(_value: Any) -> bool:
    return True


_TEXT: Kind = ("a text", _text)
_WHOLE: Kind = ("a whole number", _whole)
_TEXTS: Kind = ("a list of texts", _each(_text))
_OF_TEXTS: Kind = ("a mapping to texts", _mapping(_text, _text))
_OF_NUMBERS: Kind = ("a mapping to finite numbers", _mapping(_text, _number))
_OF_MAPPINGS: Kind = ("a mapping to mappings", _mapping(_text, _mapping(_text, _anything)))
_ANY_MAPPING: Kind = ("a mapping", _mapping(_text, _anything))
_CHOICES: Kind = ("a text for each of some groups", _mapping(GROUPS.__contains__, _text))

_MANIFEST: Mapping[str, Kind] = {
    "run_id": ("the name of a run", _named(_RUN_ID)),
    "sweep": ("the name of a folder", _named(_LABEL)),
    "name": _TEXT,
    "created": ("a date", _date),
    "status": _TEXT,
    "git_commit": _TEXT,
    "config_hash": _TEXT,
    "command": _TEXTS,
    "benchmark_version": _WHOLE,
    "metrics_version": _WHOLE,
    "seed": _WHOLE,
    "repetition": _WHOLE,
    "choices": _CHOICES,
    "packages": _OF_TEXTS,
    "load": _OF_NUMBERS,
    "criteria": _OF_TEXTS,
    "left_out": ("a mapping of tables to bytes", _mapping(TABLES.__contains__, _whole)),
    "sha256": ("digests of facts.json and metrics.json", _mapping(
        {"facts.json", "metrics.json"}.__contains__, _text
    )),
    "scheduler": _ANY_MAPPING,
    "hardware": ("a mapping with cpu and cores", _has("cpu", "cores")),
    "hardware.cpu": _TEXT,
    "hardware.cores": _WHOLE,
    "hardware.memory_bytes": _WHOLE,
    "hardware.accelerators": _TEXTS,
    "trace": _ANY_MAPPING,
    "trace.name": _TEXT,
    "trace.digest": _TEXT,
    "trace.num_jobs": _WHOLE,
    "trace.generated": _TEXTS,
    "trace.workloads": _OF_NUMBERS,
    "trace.as_recorded": (
        "a mapping to the outcomes of its jobs",
        lambda value: _OF_NUMBERS[1](value) and _has(*_OUTCOMES)(value),
    ),
    "profile": _ANY_MAPPING,
    "profile.digest": _TEXT,
    "profile.curves": _OF_MAPPINGS,
}  # fmt: skip
"""Keys of a manifest by dotted name, with the kind of value that they must have if present."""
_NULLABLE = frozenset(
    {"name", "sweep", "git_commit", "seed", "repetition", "hardware.cores", "trace.as_recorded"}
)
_ABSENT = object()
_CONFIG: Mapping[str, Kind] = {
    **dict.fromkeys(GROUPS, _ANY_MAPPING),
    "choices": _CHOICES,
    "seed": _WHOLE,
    "repetition": _WHOLE,
}


_COUNTED = frozenset(
    {
        "dilation", "num_devices", "num_events", "num_slots", "replay_wall_s", "steps_credited",
        "steps_executed",
    }
)  # fmt: skip
"""Facts that are shown as whole numbers, or used as divisors."""


def manifest_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield every mistake in a manifest."""
    if not isinstance(manifest.get("run_id"), str):
        yield "it names no run_id"
    if _is_deep(manifest, MOST_DEPTH):
        yield f"it is nested more than {MOST_DEPTH} deep"
    yield from _problems(manifest, _MANIFEST)


def config_problems(config: Any) -> Iterator[str]:
    """Yield every mistake in a stored configuration."""
    if not _ANY_MAPPING[1](config):
        yield "it is no mapping of keys"
        return
    yield from _problems(config, _CONFIG)


def metrics_problems(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield every mistake in ``metrics.json``."""
    for key, value in found.items():
        if not _number(value):
            yield f"{key} is no finite number"


def facts_problems(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield every mistake in ``facts.json``. Its numbers may be infinite, or NaN."""
    for key, value in found.items():
        if not _number(value) and (key in _COUNTED or not isinstance(value, float)):
            yield f"{key} is no finite number"


def digests_problems(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield every mistake in ``digests.json``."""
    for key, value in found.items():
        if key not in TABLES or not _text(value):
            yield f"{key!r} with its digest is that of no table"


def _is_deep(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list) and (
        most == 0 or any(_is_deep(each, most - 1) for each in inner)
    )


def _problems(document: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Iterator[str]:
    for dotted, (what, is_right) in kinds.items():
        value: Any = document
        for key in dotted.split("."):
            value = value.get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is None and dotted in _NULLABLE:
            continue
        if value is not _ABSENT and not is_right(value):
            yield f"{dotted} is not {what}"
