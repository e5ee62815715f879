"""Settings: runs of one configuration on the same inputs, whatever their seed and repetition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from harness.comparison.inputs import made_of, without_seed
from harness.configuration.identity import portable
from harness.configuration.schema import GROUPS, KEYS
from harness.results.store import StoredRun

_TRIAL = ("seed", "repetition")
_OPTIONS = (
    *(group for group in GROUPS if group != "tracking"),
    *(key for key, spec in KEYS.items() if spec.metadata["determines"] and key not in _TRIAL),
)
"""Options that determine results, except those of the trial."""


def settings(runs: Iterable[StoredRun]) -> dict[str, list[StoredRun]]:
    """Return the runs of every setting, by the canonical JSON that defines it.

    Keys include the contents of trace and profile. These are distinguished among the runs of one
    call, so keys of two calls need not agree.
    """
    members = list(runs)
    found: dict[str, list[StoredRun]] = {}
    for run, made in zip(members, made_of(members), strict=True):
        contents = {"trace": made.trace, "profile": made.profile}
        found.setdefault(_text({**_options(run.config), "contents": contents}), []).append(run)
    return found


def options_text(config: Mapping[str, Any]) -> str:
    """Return the canonical JSON of the options that define a setting, without the contents of
    files."""
    return _text(_options(config))


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: config[key] for key in _OPTIONS if key in config}
    return dict(without_seed(portable(kept), config.get("seed")))


def _text(options: dict[str, Any]) -> str:
    return json.dumps(options, sort_keys=True, default=str)
