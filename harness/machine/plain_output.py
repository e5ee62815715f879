"""Terminal output as text only: no character moves the cursor, or sets a colour or a title.

Names in traces and in results of other people may hold any character. Terminals take some
characters as commands, and others reverse the order of the letters.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""All control characters except the tab and the end of a line, and those that change directions."""


def plain(text: str) -> str:
    """Return a text with its control characters spelt out: ``\\x1b`` for an escape character."""
    return _ORDERS.sub(lambda found: ascii(found[0])[1:-1], text)


class _Plain:
    """Stream of text that spells out the control characters written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Spell out control characters in everything that is printed within the block.

    Tables and bars have their own colours, so they are written to the inner stream (``unwrapped``).
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Plain(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unwrapped(stream: TextIO) -> TextIO:
    """Return the inner stream of a stream of ``plain_streams``; any other stream unchanged."""
    return stream._stream if isinstance(stream, _Plain) else stream
