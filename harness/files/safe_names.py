"""File names for ids and runs; ids come from traces and may hold any characters."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import quote

_LONGEST = 150
"""Largest number of letters of a name; file systems allow 255 bytes, and a suffix may follow."""
_NAMED = ("trace", "scheduler", "backend", "engine")
_LONGEST_NAMED = 140
"""Largest number of bytes of the option names in the name of a run. A hash, a state, a process and
a host follow."""


def file_name(text: str) -> str:
    """Return a file name that no other text has and that cannot lead out of its folder.

    Letters, digits, ``_``, ``-``, ``~`` and ``.`` stay. Others are written ``%XX``, as are dots at
    the beginning. A very long name ends in a part of the text's SHA-256 instead.
    """
    name = quote(text, safe="", errors="surrogatepass")
    stripped = name.lstrip(".")
    name = "%2E" * (len(name) - len(stripped)) + stripped
    if len(name) > _LONGEST or not name:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST]}%{digest[:32]}"
    return name


def run_name(choices: Mapping[str, str], config_hash: str) -> str:
    """Return the name of a run and of its folder: the chosen options, and a part of its hash.

    Letters of every script, digits, space and ``._+~-`` stay; others become ``_``. If the options
    together are too long, each is cut to the same length.

    Args:
        choices: option of every group, or the stem of a user's own file.
        config_hash: hash of the configuration, in hexadecimal.
    """
    named = (choices[group] for group in _NAMED)
    safe = [re.sub(r"[^\w.+~ -]|^[.]", "_", name) for name in named]
    if len("-".join(safe).encode(errors="replace")) > _LONGEST_NAMED:
        most = _LONGEST_NAMED // len(safe) - 1
        safe = [name.encode(errors="replace")[:most].decode(errors="ignore") for name in safe]
    return "-".join([*safe, config_hash[:10]])
