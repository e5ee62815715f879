"""Fields of jobs from a table: a column, a constant, or a default for empty cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harness.errors import suggest
from harness.trace.parsing.table import Floats, Table
from harness.trace.parsing.values import SECONDS, Calendar, dates, durations, numbers

Scalar = str | int | float | bool

FIELDS = (
    "arrival",
    "slots",
    "duration",
    "start",
    "end",
    "workload",
    "batch",
    "work",
    "deadline",
    "best_effort",
    "job_id",
    "owner",
    "priority",
    "elastic",
    "min_slots",
    "max_slots",
    "logical_workers",
)
DATE = "date"
PARTS = "hms"
UNITS = (*SECONDS, PARTS, DATE)
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Cells:
    """Fields of one table's jobs; mistakes are collected in ``problems``."""

    def __init__(
        self,
        table: Table,
        columns: Mapping[str, str],
        constants: Mapping[str, Scalar | Mapping[str, Scalar]],
        defaults: Mapping[str, Scalar],
        no_value: Collection[str] = (),
    ) -> None:
        table = _emptied(table, columns.values(), frozenset(no_value))
        self.table = _filled(table, {columns[name]: str(v) for name, v in defaults.items()})
        self.problems: list[str] = []
        self.workload: Sequence[str] = ()
        """Workload of every row; constants that differ by workload need it."""
        self._columns = columns
        self._constants = constants
        self._calendars: dict[str, Calendar] = {}

    def has(self, field: str) -> bool:
        """Return whether the field has a column or a constant."""
        return field in self._columns or field in self._constants

    def bad(self, row: int, field: str, hint: str) -> None:
        """Record a problem of one row's field."""
        column = self._columns.get(field)
        fact = (
            f"{column} is {self.table.text(row, column)!r}" if column else f"{field} is not given"
        )
        if column and not self.table.columns[column][row]:
            hint += f"; or leave such rows out with {self.table.rule(row, column)}"
        self.problems.append(f"{self.table.where(row)}: {fact}; {hint}")

    def empty(self, field: str) -> list[int]:
        """Return whether each row's cell of the field is empty; false if the field has no
        column."""
        if field not in self._columns:
            return []
        return [
            row for row, cell in enumerate(self.table.columns[self._columns[field]]) if not cell
        ]

    def shown(self, *fields: str) -> dict[str, Sequence[str]]:
        """Return the original texts of the columns of these fields, by column."""
        columns = [self._columns[field] for field in fields if field in self._columns]
        return {name: self.table.originals.get(name, self.table.columns[name]) for name in columns}

    def texts(self, field: str) -> Sequence[str] | None:
        """Return the field as text; None if it has neither a column nor a constant."""
        if field in self._columns:
            return self.table.columns[self._columns[field]]
        if field in self._constants:
            return [str(value) for value in self._constant(field)]
        return None

    def numbers(
        self, field: str, *, whole: bool = False, optional: bool = False, scale: float = 1.0
    ) -> Floats:
        """Return the field as numbers times ``scale``; NaN where it is bad, empty or absent."""
        if field in self._columns:
            column = self._columns[field]
            return numbers(
                self.table, column, self.problems, whole=whole, optional=optional, scale=scale
            )
        if field not in self._constants:
            return np.full(len(self.table), np.nan)
        values = self._constant(field)
        wrong = {v for v in values if not _is_number(v, whole)}
        for value in sorted(map(repr, wrong)):
            kind = "a whole number" if whole else "a number"
            self.problems.append(f"constants.{field} is {value}; give {kind}")
        return np.array([np.nan if v in wrong else float(v) for v in values]) * scale

    def whole(self, field: str, *, optional: bool = False, scale: float = 1.0) -> Floats:
        """Return the field as whole numbers after scaling; NaN where it has none."""
        return self.numbers(field, whole=True, optional=optional, scale=scale)

    def whole_or_none(self, field: str) -> Floats | None:
        """Return the field as whole numbers, NaN for an empty cell; None if it is left out."""
        return self.whole(field, optional=True) if self.has(field) else None

    def times(
        self, field: str, units: Mapping[str, str], calendar: Calendar, *, optional: bool = False
    ) -> Floats:
        """Return the field in seconds, from its unit.

        Args:
            field: field of the job.
            units: unit by field; seconds if a field has none.
            calendar: rules for reading dates.
            optional: an empty cell is NaN without a problem.
        """
        unit = units.get(field, "s")
        if unit in SECONDS:
            return self.numbers(field, optional=optional) * SECONDS[unit]
        if field not in self._columns:
            if field in self._constants:
                kind = "a date" if unit == DATE else f"of unit {unit}"
                self.problems.append(f"constants.{field} cannot be {kind}; give a column")
            return np.full(len(self.table), np.nan)
        column = self._columns[field]
        if unit == PARTS:
            return durations(self.table, column, self.problems, optional=optional)
        own = self._calendars[column] = replace(calendar, first={})
        return dates(self.table, column, self.problems, calendar=own, optional=optional)

    def check_zones(self) -> None:
        """Record a problem if only some date columns name a zone and none is set for the others."""
        firsts = {
            is_zoned: f"{column} ({calendar.first[is_zoned]!r})"
            for column, calendar in self._calendars.items()
            for is_zoned in calendar.first
            if calendar.zone is None and len(calendar.first) == 1
        }
        if len(firsts) == 2:
            self.problems.append(
                f"{self.table.path}: dates of {firsts[True]} name a zone, those of"
                f" {firsts[False]} do not; set time_zone, the zone of the latter"
            )

    def truths(self, field: str) -> NDArray[np.bool_]:
        """Return the field as true or false; false if the table has no such field."""
        flags = self.flags(field, otherwise=False)
        return np.full(len(self.table), flags) if isinstance(flags, bool) else np.array(flags)

    def flags(self, field: str, otherwise: bool = True) -> Sequence[bool] | bool:
        """Return the field as true or false; ``otherwise`` where it is empty or absent."""
        texts = self.texts(field)
        if texts is None:
            return otherwise
        found = [_FLAGS.get(text.lower()) if text else otherwise for text in texts]
        for row, flag in enumerate(found):
            if flag is None:
                self.bad(row, field, "give true or false (or 1 or 0, yes or no)")
        return [bool(flag) for flag in found]

    def _constant(self, field: str) -> Sequence[Scalar]:
        constant = self._constants[field]
        if not isinstance(constant, Mapping):
            return [constant] * len(self.table)
        absent = sorted(set(self.workload) - set(constant))
        self.problems += [
            f"{self.table.path}: constants.{field} has no value for workload {name!r};"
            f" {suggest(name, constant)}"
            for name in absent
        ]
        return [constant.get(name, 1) for name in self.workload]


def _is_number(value: Scalar, whole: bool) -> bool:
    if isinstance(value, bool | str):
        return False
    return bool(np.isfinite(value)) and (not whole or float(value).is_integer())


def _emptied(table: Table, columns: Iterable[str], no_value: frozenset[str]) -> Table:
    """Return the table with texts that mean "no value" replaced by empty cells."""
    changed, originals = {}, {}
    for name in set(columns):
        cells = table.columns[name]
        if not no_value.isdisjoint(cells):
            changed[name] = ["" if cell in no_value else cell for cell in cells]
            originals[name] = table.originals.get(name, cells)
    return table.with_cells(changed, originals) if changed else table


def _filled(table: Table, defaults: Mapping[str, str]) -> Table:
    """Return the table with every empty cell of these columns replaced by its default."""
    changed, originals = {}, {}
    for name, default in defaults.items():
        cells = table.columns[name]
        changed[name] = [cell or default for cell in cells]
        shown = table.originals.get(name, cells)
        originals[name] = [
            text if cell else default for cell, text in zip(cells, shown, strict=True)
        ]
    return table.with_cells(changed, originals) if changed else table
