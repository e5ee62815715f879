"""Names of files for what is called otherwise: ids come from traces and may hold anything."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

_LONGEST = 150
"""Letters; file systems end at 255, and a suffix may follow."""


def file_name(text: str) -> str:
    """A name that stands for this text and no other, and leads into no other folder.

    Letters, digits, ``_``, ``-``, ``~`` and ``.`` stay, others are written ``%XX``, as are dots
    at the beginning. A very long name ends in a part of the text's SHA-256 instead.
    """
    name = quote(text, safe="", errors="surrogatepass")
    stripped = name.lstrip(".")
    name = "%2E" * (len(name) - len(stripped)) + stripped
    if len(name) > _LONGEST or not name:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST]}%{digest[:32]}"
    return name
