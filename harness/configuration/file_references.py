"""References that a file from another person may make beyond itself.

OmegaConf replaces ``${oc.env:NAME}`` by a variable of the user that opens the file. The value would
go into the records of the run, which are published. Hydra's ``defaults`` may read any YAML of the
machine in the same way. So files may refer only to other keys of the configuration (``${seed}``)
and to shipped options of their own group. Words of a command line are the user's own and may refer
to anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.errors import Problem, known

DEFAULTS = "defaults"
_SELF = "_self_"


def resolver_problems(content: Any, path: str) -> list[Problem]:
    """Return the texts of a file that ask for more than other keys.

    Args:
        content: plain mappings, lists and values of the file, nothing replaced yet.
        path: path of the file, for the problems.
    """
    return [
        Problem(
            f"{path}: {place}" if place else path,
            f"{text!r} reads from the machine of the user who opens the file",
            "write the value itself, or give it on the command line; refer to another key as "
            "${seed}",
        )
        for place, text in _texts(content, "")
        if _asks(text)
    ]


def defaults_problems(
    content: Mapping[str, Any], path: str, names: Collection[str]
) -> list[Problem]:
    """Return a problem for each entry of a file's ``defaults`` that is outside its own group.

    Args:
        content: content of the file.
        path: path of the file, for the problems.
        names: shipped options of its group.
    """
    entries = content.get(DEFAULTS, [])
    listed = entries if isinstance(entries, list) else [entries]
    return [
        Problem(f"{path}: {DEFAULTS}", f"{entry!r} is no option of its group", known(names))
        for entry in listed
        if not isinstance(entry, str) or entry not in {*names, _SELF}
    ]


def _texts(content: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a value with its place; keys are texts as well."""
    if isinstance(content, str):
        yield place, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            inner = f"{place}.{key}" if place else str(key)
            yield from _texts(key, inner)
            yield from _texts(value, inner)
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            yield from _texts(value, f"{place}.{number}" if place else str(number))


def _asks(text: str) -> bool:
    """Return whether a text has a colon inside ``${...}``, which calls a resolver.

    Backslashes before it make no exception, because different readers count them differently.
    """
    depth = 0
    for number, letter in enumerate(text):
        if text.startswith("${", number):
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif letter == ":" and depth:
            return True
    return False
