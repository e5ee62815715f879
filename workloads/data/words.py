"""Words as numbers without a word list: a hash of each, for sets that come as plain text."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

PADDING, START, END = 0, 1, 2
FIRST_WORD = 3
"""Tokens below it are special."""
_WORD = re.compile(r"\w+|[^\w\s]")


def token(word: str, vocabulary: int) -> int:
    """The number of a word; different words may share one."""
    return FIRST_WORD + zlib.crc32(word.lower().encode()) % (vocabulary - FIRST_WORD)


def words_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Every word and every sign of a text, with the characters where it begins and ends."""
    for found in _WORD.finditer(text):
        yield found[0], found.start(), found.end()
