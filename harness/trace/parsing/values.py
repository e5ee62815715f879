"""Parsers of table columns: plain numbers, dates, and durations in parts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np

from harness.trace.parsing.table import Floats, Table

SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in each unit of time."""

RepeatedHour = Literal["refuse", "earlier", "later"]
"""Meaning of a date in the hour that clocks show twice when summer time ends."""

_MAX_EXACT = 2.0**53
_ROUNDING = 1e-12
"""Largest relative error by which a decimal factor may move a whole number."""

_CLOCK = re.compile(
    r"""(?:(?P<d>\d+)-(?P<after>\d+)(?::(?P<m>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))?)?  # 2-01:24:56
    |(?:(?P<h>\d+):)?(?P<min>\d+):(?P<sec>\d\d(?:\.\d+)?))                        # 01:24:56
    """,
    re.VERBOSE | re.ASCII,
)
_LETTERS = re.compile(
    r"(?:(\d+)y)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII
)
_LETTER_S = (365 * 86400.0, 86400.0, 3600.0, 60.0, 1.0, 0.001)


class CellError(ValueError):
    """A mistake in one cell, as ``fact; way out``, to be appended to the cell's text."""


def numbers(
    table: Table,
    column: str,
    problems: list[str],
    *,
    scale: float = 1.0,
    whole: bool = False,
    optional: bool = False,
) -> Floats:
    """Return a column as numbers; a cell that is not a number becomes NaN and a problem.

    Args:
        table: where the column is.
        column: its name.
        problems: receives one line for each bad cell.
        scale: factor on every number, for units.
        whole: a number that is not whole after scaling is a problem.
        optional: an empty cell is NaN without a problem.
    """
    kind = "a whole number" if whole else "a number"
    return _parsed(table, column, problems, _number, kind, optional, whole, scale)


def durations(table: Table, column: str, problems: list[str], *, optional: bool = False) -> Floats:
    """Return a column of durations in parts (``parts_s``), in seconds.

    Args:
        table: where the column is.
        column: its name.
        problems: receives one line for each bad cell.
        optional: an empty cell is NaN without a problem.
    """
    kind = "a duration like 2-01:24:56, 01:24:56, 24:56 or 3d4h"
    return _parsed(table, column, problems, parts_s, kind, optional, False, 1.0)


def dates(
    table: Table,
    column: str,
    problems: list[str],
    *,
    calendar: Calendar | None = None,
    optional: bool = False,
) -> Floats:
    """Return a column of dates as seconds since 1970.

    Dates with a zone and dates without one in the same column are a problem.

    Args:
        table: where the column is.
        column: its name.
        problems: receives one line for each bad cell.
        calendar: how to read them; None: ISO 8601, UTC where there is no zone.
        optional: an empty cell is NaN without a problem.
    """
    calendar = Calendar() if calendar is None else calendar
    kind = f"a date like {calendar.date_format or '2017-10-07 01:03:54'}"
    values = _parsed(table, column, problems, calendar.seconds, kind, optional, False, 1.0)
    if len(calendar.first) == 2:
        zoned, naive = (table.columns[column].index(calendar.first[key]) for key in (True, False))
        problems.append(
            f"{table.where(naive)}: {column} is {calendar.first[False]!r}, without a zone, and"
            f" {calendar.first[True]!r} at line {table.lines[zoned]} has one; write all of a"
            " column with a zone, or all without"
        )
    return values


@dataclass
class Calendar:
    """Rules for reading the dates of one column, and the first date of each kind in it."""

    date_format: str | None = None
    """Format as for ``datetime.strptime``; None: ISO 8601 (``2017-10-07 01:03:54``)."""
    zone: ZoneInfo | None = None
    """Zone of dates without one; None: UTC."""
    repeated_hour: RepeatedHour = "refuse"
    first: dict[bool, str] = field(default_factory=dict)
    """First cell read with a zone (key True) and without one (key False)."""

    def seconds(self, cell: str) -> float:
        """Return the seconds from 1970 to a date.

        Raises:
            CellError: the clocks of the zone never showed this date, or showed it twice.
            ValueError: the text is not a date.
        """
        if self.date_format is None:
            found = datetime.fromisoformat(cell)
        else:
            found = datetime.strptime(cell, self.date_format)
        is_zoned = found.tzinfo is not None
        if is_zoned not in self.first:
            self.first[is_zoned] = cell
        if not is_zoned:
            found = found.replace(tzinfo=UTC) if self.zone is None else self._local(found)
        return found.timestamp()

    def _local(self, found: datetime) -> datetime:
        """Return the date in the zone; if clocks showed it twice, ``repeated_hour`` chooses one."""
        earlier, later = (found.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        before, after = earlier.utcoffset(), later.utcoffset()
        assert before is not None
        assert after is not None
        if before < after:
            raise CellError(
                f"which clocks in {self.zone} never showed, because summer time began; correct "
                "time_zone, or the cell"
            )
        if before > after and self.repeated_hour == "refuse":
            raise CellError(
                f"which clocks in {self.zone} showed twice, because summer time ended; set "
                "repeated_hour to earlier or later, or export dates in UTC"
            )
        return later if self.repeated_hour == "later" else earlier


def parts_s(cell: str) -> float:
    """Return a duration in parts, in seconds.

    Accepted forms are Slurm's ``[days-]hours:minutes:seconds``, ``minutes:seconds``, ``days-hours``
    and ``days-hours:minutes``, and Kubernetes' ``3d4h``, ``2h5m``, ``1m2.5s`` and ``1y20d`` (a year
    is 365 days).

    Raises:
        ValueError: the text has another form, or a part exceeds the next larger unit.
    """
    if found := _CLOCK.fullmatch(cell):
        part = {name: float(text or 0) for name, text in found.groupdict().items()}
        hours, minutes = part["h"] + part["after"], part["m"] + part["min"]
        seconds = part["s"] + part["sec"]
        has_days, has_hours = found["d"] is not None, found["h"] is not None
        if (has_days and hours >= 24) or seconds >= 60:
            raise ValueError
        if (has_days or has_hours) and minutes >= 60:
            raise ValueError
        return 86400.0 * part["d"] + 3600.0 * hours + 60.0 * minutes + seconds
    if cell and (found := _LETTERS.fullmatch(cell)):
        return sum(
            float(text) * seconds
            for text, seconds in zip(found.groups(), _LETTER_S, strict=True)
            if text
        )
    raise ValueError


def _number(cell: str) -> float:
    # Float() also accepts 1_000 and digits of other scripts, which are mistakes here.
    value = float(cell)
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
    """Return every cell parsed: all at once if no cell is bad, else one by one."""
    cells = table.columns[column]
    try:
        values = np.fromiter(map(parse, cells), np.float64, len(cells))
    except ValueError:
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            try:
                values[row] = parse(cell)
            except CellError as error:
                problems.append(f"{table.where(row)}: {table.fact(row, column)}, {error}")
            except ValueError:
                if cell or not optional:
                    problems.append(_bad(table, row, column, kind))
    if scale != 1.0:
        values *= scale
        nearest = np.round(values)
        values = np.where(np.abs(values - nearest) <= _ROUNDING * np.abs(nearest), nearest, values)
    if whole:
        with np.errstate(invalid="ignore"):
            broken = (values != np.round(values)) | (np.abs(values) > _MAX_EXACT)
        for row in np.flatnonzero(broken & ~np.isnan(values)).tolist():
            problems.append(_bad(table, row, column, kind))
            values[row] = np.nan
    return values


def _bad(table: Table, row: int, column: str, kind: str) -> str:
    """Return the problem of a cell; a text without digits may also mean "no value"."""
    told = f"{table.where(row)}: {table.fact(row, column)}; give {kind}, or remove the row"
    cell = table.columns[column][row]
    if any(map(str.isdigit, cell)):
        return told
    no_value = ", or no_value if the text means that there is no value" if cell else ""
    return f"{told} (ColumnsReader: {table.rule(row, column)}{no_value})"
