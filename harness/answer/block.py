"""The answer block: its sentences, its table and its note, as plain values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.machine.plain_output import plain

MOST_COLUMNS = 6
MOST_ROWS = 16
"""Rows that the table shows; the full tables of the report have all of them."""
_MARKS = re.compile(r"[\\`*\[\]!|~#]")
"""Characters that Markdown interprets in the middle of a line; ``_`` is literal within a word."""


@dataclass(frozen=True, slots=True)
class Block:
    """Sentences on what came out of some runs, and one sorted table of at most six columns."""

    sentences: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """How the table's numbers were made: means, pairs, intervals."""

    def __post_init__(self) -> None:
        if len(self.header) > MOST_COLUMNS or any(len(r) != len(self.header) for r in self.rows):
            raise ValueError(f"{len(self.header)} columns, rows of {[*map(len, self.rows)]}")

    def markdown(self) -> str:
        """Return the block as Markdown; names from records stay text."""
        lines = [" ".join(map(unmarked, self.sentences)), ""]
        rule = ["---", *("---:" for _ in self.header[1:])]
        lines += [f"| {' | '.join(map(unmarked, self.header))} |", f"| {' | '.join(rule)} |"]
        lines += [f"| {' | '.join(map(unmarked, row))} |" for row in self.rows]
        return "\n".join([*lines, *(["", unmarked(self.note)] if self.note else [])])


def unmarked(text: str) -> str:
    """Escape a text for Markdown, whose readers also show links and HTML."""
    return _MARKS.sub(r"\\\g<0>", plain(text).replace("<", "&lt;"))
