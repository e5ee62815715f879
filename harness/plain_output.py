"""Text on the terminal is text: no character of it moves the cursor, or sets a colour or a title.

Names in traces and in a stranger's results may hold anything. Terminals take some characters for
orders, and others turn the order of the letters round.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""All control characters but the tab and the end of a line, and those that change directions."""


def plain(text: str) -> str:
    """Return a text with its control characters spelt out: ``\\x1b`` for the one of terminals."""
    return _ORDERS.sub(lambda found: ascii(found[0])[1:-1], text)


class _Plain:
    """A stream of text that spells out the control characters written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Spell out control characters in all that is printed within.

    Tables and bars, which have colours of their own, are written past it (``unwrapped``).
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Plain(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unwrapped(stream: TextIO) -> TextIO:
    """Return the stream below one of ``plain_streams``; any other as it is."""
    return stream._stream if isinstance(stream, _Plain) else stream
