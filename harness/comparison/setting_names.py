"""Short names for settings, from the options that distinguish them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.comparison.inputs import contents_labels
from harness.configuration.schema import GROUPS
from harness.results.store import StoredRun

_TOLD = [group for group in GROUPS if group != "tracking"]
"""Groups that name settings. Tracking is left out, because results do not depend on it."""


def setting_names(members: Mapping[str, StoredRun]) -> dict[str, str]:
    """Return a name for every setting: its differing options and contents, with keys where needed.

    Args:
        members: a run of every setting.
    """
    choices = {
        key: {name: own for name, own in (run.config.get("choices") or {}).items() if name in _TOLD}
        for key, run in members.items()
    }
    labels = contents_labels([*members.values()])
    contents = {
        key: [f"{what} {text}" for what, text in own.items()]
        for key, own in zip(members, labels, strict=True)
    }
    names = _told_apart(choices, contents)
    if len(set(names.values())) < len(names):
        every = {key: choices[key] | _flat(_without_contents(key)) for key in members}
        names = _told_apart(every, contents)
    return names


def _without_contents(key: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(key).items() if name != "contents"}


def _told_apart(
    options: Mapping[str, Mapping[str, str]], contents: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    every = sorted({key for own in options.values() for key in own})
    varying = [key for key in every if len({own.get(key) for own in options.values()}) > 1]
    return {
        setting: " ".join([*words, *contents[setting]]) or "all"
        for setting, own in options.items()
        for words in [[f"{_short(key)}={own[key]}" for key in varying if key in own]]
    }


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        return {
            key: text
            for name, inner in value.items()
            if name != "_target_"
            for key, text in _flat(inner, f"{prefix}.{name}" if prefix else str(name)).items()
        }
    return {prefix: str(value)}
