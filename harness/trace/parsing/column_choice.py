"""Mapping from a job's fields to columns of a file, and to the relevant part of each cell."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.errors import known
from harness.trace.parsing.table import Table

Columns = Mapping[str, str | Sequence[str]]
"""Column of each field of a job, or the names that the column has in different files."""


def spellings(columns: Columns) -> dict[str, tuple[str, ...]]:
    """Return the possible column names of every field."""
    return {
        field: (names,) if isinstance(names, str) else tuple(names)
        for field, names in columns.items()
    }


def recognised(columns: Columns, there: Iterable[str]) -> bool:
    """Return whether a file with these columns has one for every field."""
    present = set(there)
    return all(present.intersection(names) for names in spellings(columns).values())


def chosen(table: Table, columns: Columns, problems: list[str]) -> dict[str, str]:
    """Return the file's own column name for every field; fields with a problem are left out.

    Args:
        table: table of the file.
        columns: possible column names of every field.
        problems: receives one line for each field with no column in the file, or with several.
    """
    names: dict[str, str] = {}
    for field, possible in spellings(columns).items():
        found = [name for name in possible if name in table.columns]
        if len(found) == 1:
            names[field] = found[0]
        elif found:
            problems.append(
                f"{table.path}:1: both {' and '.join(found)} are columns for {field}; name one"
            )
        elif len(possible) == 1:
            problems += table.missing(possible)
        else:
            problems.append(
                f"{table.path}:1: there is no column {' or '.join(possible)};"
                f" {known(table.columns)}. Name the column of {field}"
            )
    return names


def extracted(
    table: Table,
    names: Mapping[str, str],
    patterns: Mapping[str, str],
    no_value: Collection[str],
    problems: list[str],
) -> tuple[Table, dict[str, str]]:
    """Return the table with one added column for every pattern, and the column name of every field.

    The new column holds the text that the pattern's group matches in each cell. An empty cell stays
    empty, and so does a text that means "no value". Several fields may be extracted from one
    column.

    Args:
        table: table as it is in the file.
        names: the column of every field.
        patterns: field to a regular expression with one group.
        no_value: texts that mean "no value".
        problems: receives one line for every cell in which nothing matches.
    """
    columns, originals, renamed = {}, {}, dict(names)
    for field, pattern in patterns.items():
        search, column = re.compile(pattern).search, names[field]
        renamed[field] = f"{column} ({field})"
        cells: list[str] = []
        for row, cell in enumerate(table.columns[column]):
            found = search(cell)
            if found is None and cell and cell not in no_value:
                problems.append(
                    f"{table.where(row)}: {column} is {cell!r}, in which patterns.{field}"
                    f" {pattern!r} finds nothing; correct the pattern, or leave out such rows with"
                    f" keep_matching: {{{column}: ...}}"
                )
            cells.append((found[1] or "").strip() if found else "")
        columns[renamed[field]] = cells
        originals[renamed[field]] = table.columns[column]
    return table.with_cells(columns, originals), renamed
