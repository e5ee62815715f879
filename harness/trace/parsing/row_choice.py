"""Rules that keep or leave out rows of a file, by values or patterns of their cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from harness.trace.model.trace import TraceError
from harness.trace.parsing.table import Table

Scalar = str | int | float | bool
Values = Mapping[str, Sequence[Scalar]]
"""Column to values of its cells; ``""`` means an empty cell, or a text that means "no value"."""
Patterns = Mapping[str, str | Sequence[str]]
"""Column to one or more regular expressions, searched anywhere in a cell as the file has it."""


_LISTED = 4


def expressions(patterns: Patterns) -> list[tuple[str, tuple[str, ...]]]:
    """Return every column with its regular expressions."""
    return [
        (column, (found,) if isinstance(found, str) else tuple(found))
        for column, found in patterns.items()
    ]


def kept(
    table: Table,
    *,
    keep_where: Values,
    drop_where: Values,
    keep_matching: Patterns,
    drop_matching: Patterns,
    no_value: Collection[str],
) -> Table:
    """Return the rows that every rule keeps.

    Args:
        table: table as it is in the file.
        keep_where: column to values; rows with any other value are left out.
        drop_where: column to values; rows with one of these values are left out.
        keep_matching: column to expressions; rows in which none is found are left out.
        drop_matching: column to expressions; rows in which any is found are left out.
        no_value: texts that count as empty, in addition to matching themselves.

    Raises:
        TraceError: no row is left.
    """
    tests = [
        *((f"keep_where.{c}", c, True, _is_one_of(v, no_value)) for c, v in keep_where.items()),
        *((f"drop_where.{c}", c, False, _is_one_of(v, no_value)) for c, v in drop_where.items()),
        *((f"keep_matching.{c}", c, True, _finds(p)) for c, p in expressions(keep_matching)),
        *((f"drop_matching.{c}", c, False, _finds(p)) for c, p in expressions(drop_matching)),
    ]
    keep = np.ones(len(table), dtype=bool)
    for rule, column, is_kept, test in tests:
        left = [table.columns[column][row] for row in np.flatnonzero(keep).tolist()]
        keep &= np.fromiter((test(cell) is is_kept for cell in table.columns[column]), bool)
        if not keep.any():
            rules = "keep_where and drop_where"
            rules += ", keep_matching and drop_matching" if keep_matching or drop_matching else ""
            raise TraceError(
                [
                    f"{table.path}: {rules} leave no row; the last rows are removed by {rule}, "
                    f"whose cells are {_listed(left)}; correct the rule"
                ]
            )
    return table if keep.all() else table.take(np.flatnonzero(keep))


def _listed(cells: Sequence[str]) -> str:
    """Return the most frequent cells, as messages list them."""
    found = [repr(cell) for cell, _ in Counter(cells).most_common(_LISTED + 1)]
    return ", ".join(found[:_LISTED]) + (" and others" if len(found) > _LISTED else "")


def _is_one_of(values: Sequence[Scalar], no_value: Collection[str]) -> Callable[[str], bool]:
    named = {str(value).lower() if isinstance(value, bool) else str(value) for value in values}
    named |= {str(value) for value in values}
    empty = frozenset(no_value) if "" in named else frozenset()
    return lambda cell: cell in named or cell in empty


def _finds(patterns: Sequence[str]) -> Callable[[str], bool]:
    searches = [re.compile(pattern).search for pattern in patterns]
    return lambda cell: any(search(cell) for search in searches)
