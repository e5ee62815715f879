"""Tables of text cells with their line numbers, read from delimited files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from harness.errors import suggest
from harness.files.bounded_file import opened_plain
from harness.trace.model.trace import TraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NO_QUOTES = "set quotes: false (ColumnsReader) if a quotation mark is part of a name"


@dataclass(frozen=True)
class Table:
    """Table as it is in a file: columns of text, and the line of every row."""

    path: str
    """File name as messages show it: relative to the working directory if the file is below it."""
    columns: Mapping[str, Sequence[str]]
    lines: Ints
    originals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Cells as they are in the file, for columns that were changed since."""

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Return ``path:line`` of a row."""
        return f"{self.path}:{self.lines[row]}"

    def text(self, row: int, column: str) -> str:
        """Return a cell as it is in the file."""
        return self.originals.get(column, self.columns[column])[row]

    def fact(self, row: int, column: str) -> str:
        """Describe a cell of the file for messages: ``column is 'text'``, or ``column is
        empty``."""
        cell = self.text(row, column)
        if not cell:
            return f"{column} is empty"
        no_value = "" if self.columns[column][row] else ", which means no value"
        return f"{column} is {cell!r}{no_value}"

    def rule(self, row: int, column: str) -> str:
        """Return the option of ``ColumnsReader`` that leaves out rows with this cell's text."""
        name = column if column.isidentifier() else json.dumps(column, ensure_ascii=False)
        text = json.dumps(self.text(row, column), ensure_ascii=False)
        return f"drop_where: {{{name}: [{text}]}}"

    def with_cells(
        self, changed: Mapping[str, Sequence[str]], originals: Mapping[str, Sequence[str]]
    ) -> Table:
        """Return the table with these columns changed or added.

        Args:
            changed: new cells by column.
            originals: texts that messages show for these cells; other columns keep theirs.
        """
        return replace(
            self,
            columns={**self.columns, **changed},
            originals={**self.originals, **originals},
        )

    def take(self, rows: Ints) -> Table:
        """Return only the given rows, in the given order."""

        def taken(columns: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
            return {name: [cells[row] for row in rows.tolist()] for name, cells in columns.items()}

        return Table(self.path, taken(self.columns), self.lines[rows], taken(self.originals))

    def missing(self, wanted: Sequence[str]) -> list[str]:
        """Return a problem for each wanted column that is absent; it names the existing columns."""
        return [
            f"{self.path}:1: there is no column {name!r}; {suggest(name, self.columns)}"
            for name in wanted
            if name not in self.columns
        ]


@dataclass(frozen=True)
class Rows:
    """Non-blank rows of a file, split into cells, with the line of each row."""

    path: str
    """File name as messages show it."""
    cells: Sequence[Sequence[str]]
    lines: Sequence[int]


def read_table(
    path: Path,
    *,
    delimiter: str = ",",
    header: Sequence[str] | None = None,
    ragged: list[str] | None = None,
    quotes: bool = True,
) -> Table:
    """Read a delimited text file; see ``read_rows`` and ``to_table``."""
    return to_table(read_rows(path, delimiter=delimiter, quotes=quotes), header, ragged)


def read_rows(path: Path, *, delimiter: str = ",", quotes: bool = True) -> Rows:
    """Return the rows of a delimited text file, gzip-compressed if its name ends in ``.gz``.

    Blank lines are skipped. CRLF, a byte-order mark and a missing final newline are accepted. Every
    row must be one line: otherwise a quotation mark inside a name would hide the rows after it.

    Args:
        path: the file.
        delimiter: one character; a tab for TSV.
        quotes: whether a cell may be in quotes, as in CSV.

    Raises:
        TraceError: the file is absent or not text, or a cell in quotes spans several lines
            (all of these cells are named).
    """
    shown = display(path)
    rows: list[list[str]] = []
    lines: list[int] = []
    long: list[str] = []
    last = 0
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    try:
        with _opened(path, shown) as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True, quoting=quoting)
            for cells in reader:
                begin, last = last + 1, reader.line_num
                if last > begin:
                    long.append(
                        f"{shown}:{begin}: a cell in quotes spans lines {begin} to {last};"
                        f" correct the quotes, or {_NO_QUOTES}"
                    )
                if cells and any(cell.strip() for cell in cells):
                    rows.append(cells)
                    lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        raise TraceError(
            [f"{shown}: not UTF-8 text ({error.reason}); save it as UTF-8 CSV"]
        ) from error
    except OSError as error:
        raise TraceError([f"{shown}: cannot be read ({error}); give a whole file"]) from error
    except csv.Error as error:
        open_quotes = f"{shown}:{last + 1}: not a table ({error}); correct the quotes there, or"
        raise TraceError([*long, f"{open_quotes} {_NO_QUOTES}"]) from error
    if long:
        raise TraceError(long)
    return Rows(shown, rows, lines)


def to_table(
    rows: Rows, header: Sequence[str] | None = None, ragged: list[str] | None = None
) -> Table:
    """Return rows as columns, with the space around each cell removed.

    A delimiter at the end of every line, with nothing after it, does not make a column.

    Args:
        rows: rows of one file.
        header: names of the columns of a file that has no header line.
        ragged: receives one problem for each row of the wrong length, which is then left out; None:
            such rows are refused.

    Raises:
        TraceError: there is no row, or rows are of the wrong length (all of them are named).
    """
    cells, lines = list(rows.cells), list(rows.lines)
    if header is None and cells:
        names = [name.strip() for name in cells.pop(0)]
        lines.pop(0)
    else:
        names = list(header or ())
    names, cells = _without_ends(names, cells)
    _check_header(rows.path, names, cells)
    width = len(names)
    wrong = [
        f"{rows.path}:{line}: has {len(row)} cells, the header names {width}"
        f" ({', '.join(names)}); add or remove cells, or set the delimiter"
        + ", or export with a delimiter that no cell has (sacct --delimiter)"
        * (len(row) > width)
        for row, line in zip(cells, lines, strict=True)
        if len(row) != width
    ]
    if wrong and (ragged is None or len(wrong) == len(cells)):
        raise TraceError(wrong)
    if wrong and ragged is not None:
        ragged += wrong
        whole = [index for index, row in enumerate(cells) if len(row) == width]
        cells, lines = [cells[index] for index in whole], [lines[index] for index in whole]
    columns = ([cell.strip() for cell in column] for column in zip(*cells, strict=True))
    return Table(rows.path, dict(zip(names, columns, strict=True)), np.array(lines, dtype=np.int64))


def _without_ends(
    names: list[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[Sequence[str]]]:
    """Return names and rows without the empty cells that a delimiter at the end of lines makes.

    A column without a name is kept if any of its cells has text.
    """
    named = len(names)
    while named and not names[named - 1]:
        named -= 1
    width = len(names)
    if any(cell.strip() for row in rows if len(row) == width for cell in row[named:]):
        return names, list(rows)
    return names[:named], [row if any(map(str.strip, row[named:])) else row[:named] for row in rows]


def read_header(path: Path) -> list[str]:
    """Return the names in the first line of a comma-separated file.

    Raises:
        TraceError: the file is absent, empty or not text.
    """
    shown = display(path)
    try:
        with _opened(path, shown) as file:
            first = next(csv.reader(file), [])
    except (UnicodeDecodeError, OSError, csv.Error) as error:
        raise TraceError([f"{shown}: cannot be read ({error}); give a CSV file"]) from error
    if not first:
        raise TraceError([f"{shown}: is empty; the first line must name the columns"])
    return [name.strip() for name in first]


def display(path: Path) -> str:
    """Return a path as messages show it: relative to the working directory if it is below it."""
    absolute = path.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def _opened(path: Path, shown: str) -> TextIO:
    if path.is_dir():
        raise TraceError([f"{shown}: is a folder; name a file in it{_neighbours(path)}"])
    if not path.exists():
        raise TraceError([f"{shown}: there is no such file{_neighbours(path.parent)}"])
    return io.TextIOWrapper(opened_plain(path, follow=True), "utf-8-sig", newline="")


def _neighbours(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if not names:
        return f"; the folder {display(folder)} is empty or absent, correct the path"
    return f"; in {display(folder)} there are: {', '.join(names[:12])}"


def _check_header(shown: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not names:
        raise TraceError([f"{shown}: is empty; the first line must name the columns"])
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TraceError(
            f"{shown}:1: column {name!r} occurs twice; rename one of them" for name in twice
        )
    if not rows:
        raise TraceError([f"{shown}: has a header but no rows; a trace needs at least one job"])
