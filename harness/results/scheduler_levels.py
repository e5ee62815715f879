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
"""File of levels by class. It serves runs whose manifests have none. It also serves criteria, which
name schedulers that may have no run."""
_UNKNOWN = "unchecked"
MEANING = (
    "Beside a scheduler's name stands how far it was checked. exact: on the worked examples of its"
    " source; compared: decisions with those of an independent implementation, or with an oracle;"
    " described: there is only prose to go by; unchecked: it does not say. A bound is no system:"
    " it knows what none can know."
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


def beside(name: str, level: str) -> str:
    """Return a name that begins with a scheduler's, such as ``fifo / static``, with its level."""
    scheduler, slash, rest = name.partition(" / ")
    return f"{scheduler} ({level}){slash}{rest}"


def _text(said: Mapping[str, Any]) -> str:
    level = str(said.get("checked") or _UNKNOWN)
    return f"bound, {level}" if said.get("bound") else level


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found
