"""Blocks of Markdown pages that are written from records, each between two comments."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import Problem, UserError


def first_mark(name: str) -> str:
    """Return the line before a block."""
    return f"<!-- {name}: written by python -m reports.artifact; do not edit. -->"


def last_mark(name: str) -> str:
    """Return the line after a block."""
    return f"<!-- End of {name}. -->"


def rewritten(place: str, page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with the texts of its blocks replaced.

    Args:
        place: name of the page, for messages.
        page: text of the page.
        blocks: texts by the names of the blocks.

    Raises:
        UserError: the page lacks a mark.
    """
    problems = []
    for name, text in blocks.items():
        before, found, rest = page.partition(first_mark(name))
        _, also_found, after = rest.partition(last_mark(name))
        if not (found and also_found):
            hint = (
                f"put the lines {first_mark(name)} and {last_mark(name)} where the block is to be"
            )
            problems.append(Problem(place, f"lacks the marks of the block {name!r}", hint))
            continue
        page = f"{before}{first_mark(name)}\n\n{text}\n\n{last_mark(name)}{after}"
    if problems:
        raise UserError(problems)
    return page
