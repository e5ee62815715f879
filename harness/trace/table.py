"""Tables of text cells with their line numbers, and what turns cells into numbers."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from harness.problems import suggest
from harness.trace.trace import TraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in each unit of time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_EXACT = 2.0**53
_ROUNDING = 1e-12
"""What a factor written in decimals may put a whole number off, relatively."""


@dataclass(frozen=True)
class Table:
    """A table as it stands in a file: columns of text, and the line of every row."""

    path: str
    """As shown in messages: relative to the working directory where that is shorter."""
    columns: Mapping[str, Sequence[str]]
    lines: Ints

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """``path:line`` of a row."""
        return f"{self.path}:{self.lines[row]}"

    def take(self, rows: Ints) -> Table:
        """Only the given rows, in the given order."""
        columns = {
            name: [cells[row] for row in rows.tolist()] for name, cells in self.columns.items()
        }
        return Table(self.path, columns, self.lines[rows])

    def missing(self, wanted: Sequence[str]) -> list[str]:
        """Problems for the wanted columns that are not there; lists those that are."""
        return [
            f"{self.path}:1: there is no column {name!r}; {suggest(name, self.columns)}"
            for name in wanted
            if name not in self.columns
        ]


@dataclass(frozen=True)
class Rows:
    """The rows of a file that are not blank, cut into cells, and the line of each."""

    path: str
    """As shown in messages."""
    cells: Sequence[Sequence[str]]
    lines: Sequence[int]


def read_table(path: Path, *, delimiter: str = ",", header: Sequence[str] | None = None) -> Table:
    """Read a delimited text file; see ``read_rows`` and ``to_table``."""
    return to_table(read_rows(path, delimiter=delimiter), header)


def read_rows(path: Path, *, delimiter: str = ",", quotes: bool = True) -> Rows:
    """The rows of a delimited text file, gzip-compressed if its name ends in ``.gz``.

    Blank lines are skipped; CRLF, a byte-order mark and a missing final newline are fine.

    Args:
        path: the file.
        delimiter: one character; a tab for TSV.
        quotes: whether a cell may stand in quotes, as in CSV.

    Raises:
        TraceError: the file is absent or not text, or quotes are open at its end.
    """
    shown = display(path)
    rows: list[list[str]] = []
    lines: list[int] = []
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    try:
        with _opened(path, shown) as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True, quoting=quoting)
            for cells in reader:
                if cells and any(cell.strip() for cell in cells):
                    rows.append(cells)
                    lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        raise TraceError(
            [f"{shown}: not UTF-8 text ({error.reason}); save it as UTF-8 CSV"]
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError([f"{shown}: cannot be read ({error}); give a whole file"]) from error
    except csv.Error as error:
        place = f"{shown}:{reader.line_num}"
        raise TraceError([f"{place}: not a table ({error}); correct the quotes there"]) from error
    return Rows(shown, rows, lines)


def to_table(rows: Rows, header: Sequence[str] | None = None) -> Table:
    """Rows as columns; space around a cell is not part of it.

    Args:
        rows: of one file.
        header: names of the columns of a file that has no header line.

    Raises:
        TraceError: there is no row, or rows are of the wrong length (all of them are named).
    """
    cells, lines = list(rows.cells), list(rows.lines)
    if header is None and cells:
        names = [name.strip() for name in cells.pop(0)]
        lines.pop(0)
    else:
        names = list(header or ())
    _check_shape(rows.path, names, cells, lines)
    columns = ([cell.strip() for cell in column] for column in zip(*cells, strict=True))
    return Table(rows.path, dict(zip(names, columns, strict=True)), np.array(lines, dtype=np.int64))


def read_header(path: Path) -> list[str]:
    """The names in the first line of a comma-separated file.

    Raises:
        TraceError: the file is absent, empty or not text.
    """
    shown = display(path)
    try:
        with _opened(path, shown) as file:
            first = next(csv.reader(file), [])
    except (UnicodeDecodeError, OSError, EOFError, zlib.error, csv.Error) as error:
        raise TraceError([f"{shown}: cannot be read ({error}); give a CSV file"]) from error
    if not first:
        raise TraceError([f"{shown}: is empty; the first line must name the columns"])
    return [name.strip() for name in first]


def display(path: Path) -> str:
    """A path as messages show it: relative to the working directory where it is below it."""
    absolute = path.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def _opened(path: Path, shown: str) -> TextIO:
    if path.is_dir():
        raise TraceError([f"{shown}: is a folder; name a file in it{_neighbours(path)}"])
    if not path.exists():
        raise TraceError([f"{shown}: there is no such file{_neighbours(path.parent)}"])
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _neighbours(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if not names:
        return f"; the folder {display(folder)} is empty or absent, correct the path"
    return f"; in {display(folder)} there are: {', '.join(names[:12])}"


def _check_shape(
    shown: str, names: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int]
) -> None:
    if not names:
        raise TraceError([f"{shown}: is empty; the first line must name the columns"])
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TraceError(
            f"{shown}:1: column {name!r} is there twice; rename one of them" for name in twice
        )
    if not rows:
        raise TraceError([f"{shown}: has a header but no rows; a trace needs at least one job"])
    width = len(names)
    ragged = [
        f"{shown}:{line}: has {len(cells)} cells, the header names {width}"
        f" ({', '.join(names)}); add or remove cells, or set the delimiter"
        for cells, line in zip(rows, lines, strict=True)
        if len(cells) != width
    ]
    if ragged:
        raise TraceError(ragged)


def numbers(
    table: Table,
    column: str,
    problems: list[str],
    *,
    scale: float = 1.0,
    whole: bool = False,
    optional: bool = False,
) -> Floats:
    """A column as numbers; what is not one becomes NaN and a problem.

    Args:
        table: where the column is.
        column: its name.
        problems: receives one line for each bad cell.
        scale: factor on every number, for units.
        whole: what is a fraction after that is a problem.
        optional: an empty cell is NaN without a problem.
    """
    kind = "a whole number" if whole else "a number"
    return _parsed(table, column, problems, _number, kind, optional, whole, scale)


def dates(
    table: Table,
    column: str,
    problems: list[str],
    *,
    date_format: str | None = None,
    optional: bool = False,
) -> Floats:
    """A column of dates as seconds since 1970; without a zone they are taken as UTC.

    Args:
        table: where the column is.
        column: its name.
        problems: receives one line for each bad cell.
        date_format: as for ``datetime.strptime``; None: ISO 8601 (``2017-10-07 01:03:54``).
        optional: an empty cell is NaN without a problem.
    """

    def parse(cell: str) -> float:
        found = (
            datetime.fromisoformat(cell)
            if date_format is None
            else datetime.strptime(cell, date_format)
        )
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return (found - _EPOCH).total_seconds()

    kind = f"a date like {date_format or '2017-10-07 01:03:54'}"
    return _parsed(table, column, problems, parse, kind, optional, False, 1.0)


def _number(cell: str) -> float:
    value = float(cell)  # takes 1_000 and other scripts' digits, too, which no trace means
    if not math.isfinite(value) or "_" in cell or not cell.isascii():
        raise ValueError
    return value


def _parsed(
    table: Table,
    column: str,
    problems: list[str],
    parse: Callable[[str], float],
    kind: str,
    optional: bool,
    whole: bool,
    scale: float,
) -> Floats:
    """Every cell parsed; all at once where that succeeds, cell by cell where it does not."""
    cells = table.columns[column]
    try:
        values = np.fromiter(map(parse, cells), np.float64, len(cells))
    except ValueError:
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            try:
                values[row] = parse(cell)
            except ValueError:
                if cell or not optional:
                    problems.append(_bad(table, row, column, cell, kind))
    if scale != 1.0:
        values *= scale
        nearest = np.round(values)
        values = np.where(np.abs(values - nearest) <= _ROUNDING * np.abs(nearest), nearest, values)
    if whole:
        with np.errstate(invalid="ignore"):
            broken = (values != np.round(values)) | (np.abs(values) > _MAX_EXACT)
        for row in np.flatnonzero(broken & ~np.isnan(values)).tolist():
            problems.append(_bad(table, row, column, cells[row], kind))
            values[row] = np.nan
    return values


def _bad(table: Table, row: int, column: str, cell: str, kind: str) -> str:
    fact = f"is {cell!r}" if cell else "is empty"
    return f"{table.where(row)}: {column} {fact}; give {kind}, or remove the row"
