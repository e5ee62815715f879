"""Composition of a profile from the profiles in its ``defaults`` list, as Hydra does it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.fast_yaml import check_bounds
from harness.configuration.file_references import resolver_problems
from harness.errors import suggest
from harness.files.bounded_file import read_text
from harness.profiles.errors import ProfileError

DEFAULTS = "defaults"
_SELF = "_self_"
_FILE, _ACROSS = "file", "across_hosts"


def extended(path: Path, shipped: Path) -> Any:
    """Return the content of a profile's file, merged with all profiles that it extends.

    An entry of ``defaults`` is the name of a profile in the same folder, else of a shipped one, or
    the path of a YAML file. Later entries win; ``_self_`` is the file itself and comes last if it
    is not listed. Relative paths start from the folder of the file that contains them.

    Args:
        path: the YAML file.
        shipped: folder of the shipped profiles.

    Raises:
        ProfileError: a list, or an entry of it, is wrong.
    """
    try:
        return OmegaConf.to_container(_merged(path, shipped, ()), resolve=True)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise ProfileError([f"{path}: {reason}; correct its {DEFAULTS} list"]) from error


def _merged(path: Path, shipped: Path, above: tuple[Path, ...]) -> DictConfig:
    """Return a file merged with the files it extends; ``above`` are the files that extend it."""
    place = path.resolve()
    if place in above:
        circle = " extends ".join(str(one) for one in (*above[above.index(place) :], place))
        raise ProfileError([f"{path}: {circle}; correct its {DEFAULTS} list"])
    own = _read(path)
    entries = own.pop(DEFAULTS, None)
    listed = [] if entries is None else entries
    if not isinstance(listed, ListConfig | list) or not all(isinstance(e, str) for e in listed):
        raise ProfileError([f"{path}: {DEFAULTS} is no list of names; correct its {DEFAULTS} list"])
    _rebase(own, place.parent)
    names = list(listed) if _SELF in listed else [*listed, _SELF]
    parts = [
        own
        if name == _SELF
        else _merged(_found(name, place, shipped, path), shipped, (*above, place))
        for name in names
    ]
    merged = OmegaConf.merge(*parts)
    assert isinstance(merged, DictConfig)
    return merged


def _read(path: Path) -> DictConfig:
    try:
        text = read_text(path, follow=True)
        check_bounds(text)
        node = OmegaConf.load(io.StringIO(text))
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException) as error:
        reason = " ".join(str(error).split())
        raise ProfileError([f"{path}: cannot be read ({reason}); correct the file"]) from error
    if not isinstance(node, DictConfig):
        raise ProfileError(
            [f"{path}: is no mapping; docs/reference/configuration.md has the format"]
        )
    problems = resolver_problems(OmegaConf.to_container(node, resolve=False), str(path))
    if problems:
        raise ProfileError([str(problem) for problem in problems])
    return node


def _found(name: str, place: Path, shipped: Path, shown: Path) -> Path:
    """Find the file that an entry of ``defaults`` names."""
    is_file = name.endswith((".yaml", ".yml"))
    folders = [place.parent] if is_file else [place.parent, shipped]
    for folder in folders:
        path = folder / (name if is_file else f"{name}.yaml")
        if path.is_file():
            return path
    known = sorted(
        {one.stem for folder in (place.parent, shipped) for one in folder.glob("*.yaml")}
    )
    hint = f"{suggest(name, known)}; or give the path of a YAML file"
    raise ProfileError(
        [f"{shown}: there is no profile {name!r}; {hint}; correct its {DEFAULTS} list"]
    )


def _rebase(node: DictConfig, folder: Path) -> None:
    """Make the relative paths of a file absolute."""
    for part, key in _paths(node):
        value = part.get(key)
        if isinstance(value, str):
            part[key] = str(folder / value)


def _paths(node: DictConfig) -> Iterator[tuple[DictConfig, Any]]:
    """Yield every place of a path in a profile: the mapping and its key."""
    if "costs" in node:
        yield node, "costs"
    devices = node.get("devices")
    if isinstance(devices, DictConfig):
        yield from ((devices, key) for key in devices)
    throughput = node.get("throughput")
    for entry in throughput.values() if isinstance(throughput, DictConfig) else ():
        for curve in (entry, entry.get(_ACROSS)) if isinstance(entry, DictConfig) else ():
            if isinstance(curve, DictConfig) and _FILE in curve:
                yield curve, _FILE
