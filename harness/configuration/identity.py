"""Identity of a run, which depends on the contents of its files and not on their folders.

Traces and profiles have digests, which are part of every run's id. So the path of a user's own file
adds only the folder's name. Such a path is absolute; the paths of shipped files are relative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.configuration.moved_modules import with_recorded_names

if TYPE_CHECKING:
    pass

FILED = ("trace", "profile")
"""Groups whose files have digests in every manifest."""
OWN_FILE = "own file"
"""Replacement of a path. Digests distinguish the contents of such files."""


def portable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration's groups and keys without the paths of the user's own files.

    Modules that have moved have the names that earlier runs recorded (``moved_modules.py``).

    Args:
        config: groups and keys of a run's configuration; it is not changed.
    """
    return {
        key: without_own_paths(value) if key in FILED else value
        for key, value in with_recorded_names(config).items()
    }


def without_own_paths(value: Any) -> Any:
    """Return the options of a trace or profile with ``OWN_FILE`` in place of absolute paths."""
    if isinstance(value, Mapping):
        return {key: without_own_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_own_paths(inner) for inner in value]
    return OWN_FILE if _is_own_path(value) else value


def own_paths(value: Any) -> tuple[str, ...]:
    """Return the absolute paths among the options of a trace or profile, in their order."""
    if isinstance(value, Mapping):
        return tuple(path for inner in value.values() for path in own_paths(inner))
    if isinstance(value, list | tuple):
        return tuple(path for inner in value for path in own_paths(inner))
    return (value,) if _is_own_path(value) else ()


def is_named_by_path(profile_config: Any) -> bool:
    """Return whether a configuration names the profile by a file instead of stating it."""
    if not isinstance(profile_config, Mapping):
        return False
    return bool(profile_config.get("path")) or bool(own_paths(profile_config))


def _is_own_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/")
