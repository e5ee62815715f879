"""Verification levels of schedulers, shown next to their names; a run's manifest has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.compose import CONFIG_DIR
from harness.configuration.named_classes import TARGET
from harness.results.store import StoredRun

TABLE = Path(__file__).with_suffix(".yaml")
"""File of levels by class, for runs whose manifests have no level. Criteria use it too, because
they name schedulers that may have no run."""
_UNKNOWN = "unchecked"
MEANING = (
    "Each scheduler's name is followed by its verification level. exact: checked on the worked"
    " examples of its source; compared: its decisions were compared with those of an independent"
    " implementation or an oracle; described: only prose describes it; unchecked: the scheduler"
    " states no level. A bound assumes full knowledge of the future; no scheduler can reach it."
)


def of_run(run: StoredRun) -> str:
    """Return the level of the scheduler that decided in a run."""
    said = run.manifest.get("scheduler")
    return _text(said) if said else of_class(str(run.config.get("scheduler", {}).get(TARGET)))


def of_class(path: str) -> str:
    """Return the level of a class of schedulers, by its dotted path."""
    return _text(_table().get(path, {}))


def of_choice(name: str) -> str:
    """Return the level of a shipped scheduler, by the name of its configuration."""
    path = CONFIG_DIR / "scheduler" / f"{name}.yaml"
    if not path.is_file():
        return _UNKNOWN
    return of_class(str(yaml.safe_load(path.read_text(encoding="utf-8"))[TARGET]))


def with_level(name: str, level: str) -> str:
    """Return a name such as ``fifo / static`` with the scheduler's level inserted."""
    scheduler, slash, rest = name.partition(" / ")
    return f"{scheduler} ({level}){slash}{rest}"


def _text(said: Mapping[str, Any]) -> str:
    level = str(said.get("checked") or _UNKNOWN)
    # Manifests before the attribute was named ``oracle`` call it ``bound``.
    is_oracle = said.get("oracle", said.get("bound", False))
    return f"bound, {level}" if is_oracle else level


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found
