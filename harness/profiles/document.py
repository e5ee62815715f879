"""YAML documents that record the line of every key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.fast_yaml import check_bounds, fault
from harness.files.bounded_file import read_text

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """Plain data, and the line of each part of it."""

    source: str
    """File name, or the name of the configuration's node."""
    data: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """Line of every key and list entry; empty if the data did not come from a file."""
    problems: tuple[str, ...] = ()

    def place(self, *keys: str | int) -> str:
        """Return the place of a part: ``file:line: a.b`` or ``profile.a.b``."""
        dotted = ".".join(str(key) for key in keys)
        for end in range(len(keys), -1, -1):
            line = self.lines.get(keys[:end])
            if line is not None:
                return f"{self.source}:{line}: {dotted}" if dotted else f"{self.source}:{line}"
        if not dotted:
            return self.source
        return f"{self.source}: {dotted}" if self.lines else f"{self.source}.{dotted}"


def key_problems(document: Document) -> list[str]:
    """Return a problem for each mapping whose keys cannot be sorted; digests need sorted keys."""

    def within(value: Any, place: KeyPath) -> Iterator[str]:
        if isinstance(value, Mapping):
            if not any(all(isinstance(key, kind) for key in value) for kind in (str, int)):
                fact = "the keys are not all texts, or all whole numbers"
                yield f"{document.place(*place)}: {fact}; put the other keys in quotes"
                return
            for key, inner in value.items():
                yield from within(inner, (*place, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from within(inner, (*place, index))

    return [*within(document.data, ())]


def read_document(path: Path) -> Document:
    """Read a YAML file; its mistakes are in the document's ``problems``."""
    try:
        text = read_text(path, follow=True)
    except UnicodeDecodeError:
        fact = "cannot be read (it is not UTF-8 text)"
        return Document(str(path), {}, problems=(f"{path}: {fact}; save it as UTF-8 YAML",))
    except OSError as error:
        fact = f"cannot be read ({error.strerror or error})"
        return Document(str(path), {}, problems=(f"{path}: {fact}; check the path",))
    lines: dict[KeyPath, int] = {(): 1}
    problems: list[str] = []
    loader = None
    try:
        check_bounds(text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        data = None if node is None else _plain(loader, node, (), path, lines, problems)
    except yaml.YAMLError as error:
        line, fact = fault(error, text)
        return Document(
            str(path),
            {},
            problems=(f"{path}:{line}: not valid YAML: {fact}; correct the syntax",),
        )
    except Exception as error:  # PyYAML's constructors can raise any exception on a wrong tag
        return Document(str(path), {}, problems=(f"{path}: {error}; quote or correct the value",))
    finally:
        if loader is not None:
            loader.dispose()
    return Document(str(path), data, lines, tuple(problems))


def _plain(
    loader: yaml.SafeLoader,
    node: yaml.Node,
    place: KeyPath,
    path: Path,
    lines: dict[KeyPath, int],
    problems: list[str],
) -> Any:
    """Return the plain data of a node; record lines and repeated keys."""
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                key = str(key)
            line = key_node.start_mark.line + 1
            if key in found:
                problems.append(
                    f"{path}:{line}: {key!r} is given twice, first on line"
                    f" {lines[(*place, key)]}; keep one of them"
                )
            lines[(*place, key)] = line
            found[key] = _plain(loader, value_node, (*place, key), path, lines, problems)
        return found
    if isinstance(node, yaml.SequenceNode):
        entries = []
        for index, entry in enumerate(node.value):
            lines[(*place, index)] = entry.start_mark.line + 1
            entries.append(_plain(loader, entry, (*place, index), path, lines, problems))
        return entries
    return loader.construct_object(node, deep=True)
