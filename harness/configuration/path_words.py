"""Arguments of a command line, quoted where Hydra's grammar would misread them.

Shells remove quotes, so a path with an umlaut, a parenthesis or a comma arrives without them. Hydra
refuses it, or takes a comma for a list. A value that names a file, or that can only be a text, gets
its quotes back here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

_YAML = (".yaml", ".yml")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""Texts that Hydra reads unchanged."""
_STRUCTURE = re.compile(r"""[][{},]|\$\{|^['"]""")
"""Marks of lists, mappings, interpolations and quoted texts."""
_CALL = re.compile(r"[()=]")
"""Marks of functions, which texts may have."""


def quoted(text: str) -> str:
    """Return a text in Hydra's quotes, which reads back as the same text."""
    return "'" + re.sub(r"(\\*)('|$)", _escape, text) + "'"


def literal(text: str) -> str:
    """Return a text that OmegaConf reads as the given text, without interpolation."""
    return re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + r"\${", text)


def unquoted(text: str) -> str:
    """Return the content of a text in Hydra's quotes; any other text unchanged."""
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        return text
    return re.sub(r"(\\+)(['\"]|$)", lambda m: m[1][: len(m[1]) // 2] + m[2], text[1:-1])


def _escape(match: re.Match[str]) -> str:
    backslashes, quote_mark = match.groups()
    return 2 * backslashes + ("\\'" if quote_mark else "")


def is_yaml(text: str) -> bool:
    """Return whether a text ends like the name of a YAML file."""
    return text.endswith(_YAML)


def spellings(
    word: str, groups: Collection[str], texts: Collection[str], sweeping: bool
) -> Iterator[str]:
    """Yield the ways to read a word, best first; the first that Hydra understands is meant.

    Args:
        word: ``key=value``, as it arrived.
        groups: keys whose values are options, or YAML files.
        texts: keys whose values are texts.
        sweeping: true if a comma may separate the values of a list.
    """
    key, _, value = word.partition("=")
    name = key.lstrip("+~")
    is_option = name in groups
    pieces = value.split(",") if sweeping else [value]
    if _is_odd_path(value, is_option):
        yield f"{key}={quoted(value if is_option else literal(value))}"
    if any(_is_odd_path(piece, is_option) for piece in pieces):
        spelt = (quoted(p) if _is_odd_path(p, is_option) else p for p in pieces)
        yield f"{key}={','.join(spelt)}"
    yield word
    if is_option and any(map(is_yaml, pieces)):  # so that a missing file is reported as missing
        yield f"{key}={','.join(quoted(p) if is_yaml(p) else p for p in pieces)}"
    if value and not _STRUCTURE.search(value) and (name in texts or not _CALL.search(value)):
        yield f"{key}={quoted(value)}"


def _is_odd_path(text: str, is_option: bool) -> bool:
    """Return whether a text names something on this disk, but is not plain for Hydra."""
    if not text or _PLAIN.fullmatch(text) or (is_option and not is_yaml(text)):
        return False
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long, or with characters that no file name has
        return False
