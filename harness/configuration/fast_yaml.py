"""Fast reader of YAML: it uses libyaml if present, because Python's own parser takes eight times as
long.

Documents are bounded before anything is built from them. A few lines of aliases can expand a
million times (``a: &a [*b, *b]``). A deeply nested document would end the process, not only the
call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

MOST_DEPTH = 64
"""Largest depth of nested mappings and lists."""
MOST_NODES = 2_000_000
"""Largest number of values of a document; an alias counts as all values that it refers to."""
MOST_DIGITS = 250
"""Largest number of digits of a whole number; even in base 16 such a number fits into a float."""
_WHOLE = re.compile(r"[-+]?[0-9][0-9a-fA-F_:xob]*")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ENTRY = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
"""Beginning of an entry of the outermost mapping; a list below its key may start in the same
column."""


def read_yaml(text: str) -> Any:
    """Return the value of a YAML document.

    Raises:
        yaml.YAMLError: the text is no YAML, or is larger than its bounds.
    """
    check_bounds(text)
    try:
        return yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError:
        raise
    except Exception as error:  # the library's own constructors raise anything on a wrong tag
        raise yaml.YAMLError(f"a value does not fit its tag ({error})") from error


def read_plain(text: str) -> Any:
    """Return the value of a YAML document of texts, numbers, truth values, lists and mappings only.

    The keys of a mapping are all texts, or all whole numbers, so that they have an order.

    Raises:
        yaml.YAMLError: as for ``read_yaml``; or the document has another value, such as a date.
    """
    found = read_yaml(text)
    _check_plain(found)
    return found


def _check_plain(value: Any) -> None:
    if isinstance(value, Mapping):
        if not (
            all(isinstance(key, str) for key in value) or all(isinstance(key, int) for key in value)
        ):
            raise yaml.YAMLError("the keys of a mapping are not all texts, or all whole numbers")
        for inner in value.values():
            _check_plain(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner)
    elif value is not None and not isinstance(value, str | int | float):
        raise yaml.YAMLError(f"it holds a {type(value).__name__}; put a text in quotes")


class BoundsError(yaml.MarkedYAMLError):
    """Refusal of a document that is too deep or too large, or has a number beyond all floats."""


def check_bounds(text: str) -> None:
    """Refuse a document that is too deep, too large with its aliases, or has too long a number.

    Call it before any other reader of YAML, which would build the document first. Text that is no
    YAML is left to that reader, which reports the place.

    Raises:
        BoundsError: the document is larger than its bounds, or holds itself.
    """
    sizes: dict[str, int] = {}
    above: list[tuple[str | None, int]] = []
    total = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                above.append((event.anchor, total))
                total += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = above.pop()
                if anchor is not None:
                    sizes[anchor] = total - before
            elif isinstance(event, yaml.AliasEvent):
                if any(event.anchor == anchor for anchor, _ in above):
                    raise _out_of_bounds("a part of it holds itself", event)
                total += sizes.get(str(event.anchor), 0)
            elif isinstance(event, yaml.ScalarEvent):
                total += 1
                if event.anchor is not None:
                    sizes[event.anchor] = 1
                if len(event.value) > MOST_DIGITS and _WHOLE.fullmatch(event.value):
                    raise _out_of_bounds(f"a number has more than {MOST_DIGITS} digits", event)
            if len(above) > MOST_DEPTH:
                raise _out_of_bounds(f"it is nested more than {MOST_DEPTH} deep", event)
            if total > MOST_NODES:
                raise _out_of_bounds(f"it has more than {MOST_NODES:,} values", event)
    except BoundsError:
        raise
    except (yaml.YAMLError, ValueError):
        return


def _out_of_bounds(fact: str, event: yaml.Event) -> BoundsError:
    mark: Any = event.start_mark
    return BoundsError(problem=fact, problem_mark=mark)


def fault(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Return the line of a mistake in a YAML document, and its description.

    Args:
        error: error of a reader in Python; libyaml counts bytes, not letters.
        text: the document.
    """
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return line, f"has the character U+{error.character:04X}, which no YAML text has"
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else 1, getattr(error, "problem", None) or "not YAML"


def read_alike(text: str) -> Any:
    """Return the value of a YAML document that resembles many others, such as the configurations of
    a study's runs.

    Each outermost entry is parsed once, and all documents share its value, so the value must not be
    changed. For 4,544 such documents it is thirty times as fast.

    Raises:
        yaml.YAMLError: the text is no YAML.
    """
    found: dict[str, Any] = {}
    try:
        for entry in filter(None, _ENTRY.split(text)):
            parsed = _entry(entry)
            # Merged entries (``<<``) yield to the mapping's own, so they need the whole document.
            if not isinstance(parsed, Mapping) or len(parsed) != 1 or entry.startswith("<<"):
                return read_plain(text)
            found |= parsed
    except yaml.YAMLError:  # a value spans several entries, or the text is no YAML: parse the whole
        return read_plain(text)
    return found or read_plain(text)


_entry = lru_cache(maxsize=8192)(read_plain)
