"""Numbers of words without a word list, for data sets of plain text: each is a hash of its word."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

PADDING, START, END = 0, 1, 2
FIRST_WORD = 3
"""Smallest token of a word; smaller tokens are special."""
_WORD = re.compile(r"\w+|[^\w\s]")


def token(word: str, vocabulary: int) -> int:
    """Return the number of a word; different words may share one."""
    return FIRST_WORD + zlib.crc32(word.lower().encode()) % (vocabulary - FIRST_WORD)


def words_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield every word and sign of a text, with the positions of its begin and end in the text."""
    for found in _WORD.finditer(text):
        yield found[0], found.start(), found.end()
