"""Modules that have moved since runs were recorded with their names.

A launcher's configuration lists modules by name, and the list is part of a run's id. Ids are
computed with the recorded names, so that moving a module changes no id. Everything else uses the
current names, so that a stored configuration still runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

MOVED: Final[Mapping[str, str]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
"""Current names of modules, by the recorded name."""
_RECORDED: Final = {today: recorded for recorded, today in MOVED.items()}
_GROUP, _OPTION = "launcher", "preimport"


def recorded_name(module: str) -> str:
    """Return the name under which records have a module."""
    return _RECORDED.get(module, module)


def with_current_names(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with the current names of the launcher's modules."""
    return _renamed(config, MOVED)


def with_recorded_names(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with the recorded names of the launcher's modules, which ids use."""
    return _renamed(config, _RECORDED)


def _renamed(config: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    launcher = config.get(_GROUP)
    listed = launcher.get(_OPTION) if isinstance(launcher, Mapping) else None
    if not isinstance(launcher, Mapping) or not isinstance(listed, list | tuple):
        return config
    modules = [names.get(name, name) if isinstance(name, str) else name for name in listed]
    return {**config, _GROUP: {**launcher, _OPTION: modules}}
