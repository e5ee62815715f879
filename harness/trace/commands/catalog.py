"""Look-up of traces, profiles and clusters by the name of a shipped configuration, or by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.cluster import Cluster
from harness.configuration.fast_yaml import check_bounds, fault
from harness.configuration.instantiate import build
from harness.errors import UserError, suggest
from harness.files.bounded_file import read_text
from harness.profiles import Profile, ProfileError, load_profile
from harness.trace.build import TRACES, build_parts, finish
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.submissions import Reader
from harness.trace.parsing.table import display, read_header
from harness.trace.transforms import Transform, TransformContext

CONFIGS = TRACES.parent
"""Folder of the shipped configurations, with one folder for each group."""
_YAML = (".yaml", ".yml")


def names(group: str) -> list[str]:
    """Return the names of the shipped configurations of a group, sorted."""
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


@dataclass(frozen=True)
class Opened:
    """A trace configuration whose parts are built and whose data is not read yet."""

    config: Mapping[str, Any]
    reader: Reader
    transforms: tuple[Transform, ...] = field(default=())

    def load(self, context: TransformContext) -> Trace:
        """Return the trace after all transforms; raise ``TraceError`` as ``load_trace`` does."""
        return finish(self.reader.read(), self.config, self.transforms, context)


def open_trace(name_or_file: str) -> Opened:
    """Open a shipped trace by its name, a YAML by its path, or a file in a known format.

    A CSV is read by the first shipped configuration whose reader recognises its columns; its
    transforms are not applied.

    Raises:
        TraceError: there is no such trace or file, or its configuration is wrong.
    """
    path = Path(name_or_file)
    shipped = TRACES / f"{name_or_file}.yaml"
    if path.suffix in _YAML:
        return _open_yaml(path)
    if path.name == name_or_file and shipped.is_file():
        return _open_yaml(shipped)
    if not path.exists() and "/" not in name_or_file and not path.suffix:
        raise TraceError(
            [
                f"there is no trace {name_or_file!r}; {suggest(name_or_file, names('trace'))};"
                " or give a file"
            ]
        )
    return _recognised(path)


def open_cluster(name: str) -> Cluster:
    """Return the cluster of ``configs/cluster/NAME.yaml``, or of a YAML by its path.

    Raises:
        UserError: there is no such cluster, or it is wrong.
    """
    path = Path(name)
    content = _yaml(path) if path.suffix in _YAML else _named("cluster", name)
    found = build(content, f"cluster {name}", "cluster")
    if not isinstance(found, Cluster):
        raise UserError([f"cluster {name}: builds no harness.cluster.Cluster; correct _target_"])
    return found.unshared()  # load and job sizes are counted in whole devices


def open_profile(name: str) -> Profile:
    """Return the profile of ``configs/profile/NAME.yaml``, or of a YAML by its path.

    Raises:
        UserError: there is no such profile, or it is wrong.
    """
    path = Path(name)
    if path.suffix not in _YAML:
        _named("profile", name)
        path = CONFIGS / "profile" / f"{name}.yaml"
    try:
        return load_profile(path)
    except ProfileError as error:
        raise UserError(error.problems) from error


def _named(group: str, name: str) -> Mapping[str, Any]:
    path = CONFIGS / group / f"{name}.yaml"
    if not path.is_file():
        raise UserError([f"there is no {group} {name!r}; {suggest(name, names(group))}"])
    return _yaml(path)


def _yaml(path: Path) -> Mapping[str, Any]:
    shown = display(path)
    try:
        text = read_text(path, follow=True)
    except UnicodeDecodeError as error:
        fact = "cannot be read (it is not UTF-8 text)"
        raise TraceError([f"{shown}: {fact}; save it as UTF-8 YAML"]) from error
    except OSError as error:
        raise TraceError([f"{shown}: cannot be read ({error}); correct the path"]) from error
    try:
        check_bounds(text)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        line, fact = fault(error, text)
        raise TraceError([f"{shown}:{line}: {fact}; correct the YAML there"]) from error
    except Exception as error:  # PyYAML's constructors can raise any exception on a wrong tag
        raise TraceError([f"{shown}: {error}; quote or correct the value"]) from error
    if not isinstance(content, Mapping):
        raise TraceError([f"{shown}: is no mapping; docs/how-to/add-a-trace.md has an example"])
    return content


def _open_yaml(path: Path) -> Opened:
    config = _yaml(path)
    try:
        reader, transforms = build_parts(config, path.resolve().parent)
    except TraceError as error:
        raise TraceError(f"{display(path)}: {problem}" for problem in error.problems) from error
    return Opened(config, reader, tuple(transforms))


def _recognised(path: Path) -> Opened:
    columns = read_header(path)
    readers = set()
    for name in names("trace"):
        config = _yaml(TRACES / f"{name}.yaml")
        reader_config = {**config.get("reader", {}), "path": str(path.resolve())}
        changed = {
            "name": path.name.split(".")[0],
            "source": f"a file in the format of {name}",
            "licence": "not stated",
            "reader": reader_config,
        }
        reader, _ = build_parts(changed, TRACES)
        readers.add(type(reader).__name__)
        if reader.recognises(columns):
            return Opened(changed, reader)
    raise TraceError(
        [
            f"{display(path)}:1: the columns {', '.join(columns)} are of no known format"
            f" (formats: those of {', '.join(sorted(readers))}, with the columns of a shipped"
            " trace); describe the file in a YAML and give that (docs/how-to/add-a-trace.md)"
        ]
    )
