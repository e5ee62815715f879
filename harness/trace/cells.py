"""Fields of jobs out of a table: from a column, a constant, or a default for empty cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.problems import suggest
from harness.trace.table import SECONDS, Floats, Ints, Table, dates, numbers

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
UNITS = (*SECONDS, DATE)
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Cells:
    """The fields of one table's jobs; collects what is wrong with them in ``problems``."""

    def __init__(
        self,
        table: Table,
        columns: Mapping[str, str],
        constants: Mapping[str, Scalar | Mapping[str, Scalar]],
        defaults: Mapping[str, Scalar],
    ) -> None:
        self.table = _filled(table, {columns[name]: str(v) for name, v in defaults.items()})
        self.problems: list[str] = []
        self.workload: Sequence[str] = ()
        """Workload of every row; needed by constants that differ by workload."""
        self._columns = columns
        self._constants = constants

    def has(self, field: str) -> bool:
        """Whether the field has a column or a constant."""
        return field in self._columns or field in self._constants

    def bad(self, row: int, field: str, way_out: str) -> None:
        """Note a problem of one row's field."""
        column = self._columns.get(field, field)
        cells = self.table.columns.get(column)
        fact = f"{column} is {cells[row]!r}" if cells else f"{column} is not given"
        self.problems.append(f"{self.table.where(row)}: {fact}; {way_out}")

    def by_line(self) -> list[str]:
        """The problems, each once, those of lines in the order of the file and last."""

        def line(problem: str) -> int:
            place = problem.removeprefix(f"{self.table.path}:")
            number = place.partition(":")[0]
            return int(number) if place != problem and number.isdigit() else -1

        return sorted(dict.fromkeys(self.problems), key=line)

    def empty(self, field: str) -> list[int]:
        """Rows whose cell of the field is empty."""
        cells = self.table.columns.get(self._columns.get(field, ""), ())
        return [row for row, cell in enumerate(cells) if not cell]

    def texts(self, field: str) -> Sequence[str] | None:
        """The field as text; None if there is no such field."""
        if field in self._columns:
            return self.table.columns[self._columns[field]]
        if field in self._constants:
            return [str(value) for value in self._constant(field)]
        return None

    def numbers(
        self, field: str, *, whole: bool = False, optional: bool = False, scale: float = 1.0
    ) -> Floats:
        """The field as numbers times ``scale``; NaN where it is bad, empty or absent."""
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

    def whole(self, field: str, otherwise: Floats | None = None, *, scale: float = 1.0) -> Floats:
        """The field as whole numbers after ``scale``, or the values to take where there is no
        such field."""
        if otherwise is not None and not self.has(field):
            return otherwise
        return self.numbers(field, whole=True, scale=scale)

    def whole_or_none(self, field: str) -> Ints | None:
        """The field as integers; None if there is no such field."""
        if not self.has(field):
            return None
        values = self.numbers(field, whole=True)
        return np.nan_to_num(values).astype(np.int64)

    def times(
        self,
        field: str,
        units: Mapping[str, str],
        date_format: str | None,
        *,
        optional: bool = False,
    ) -> Floats:
        """The field in seconds, from its unit."""
        unit = units.get(field, "s")
        if unit == DATE and field in self._columns:
            column = self._columns[field]
            return dates(
                self.table, column, self.problems, date_format=date_format, optional=optional
            )
        if unit == DATE:
            self.problems.append(f"constants.{field} cannot be a date; give a column")
            return np.full(len(self.table), np.nan)
        return self.numbers(field, optional=optional) * SECONDS[unit]

    def truths(self, field: str) -> NDArray[np.bool_]:
        """The field as true or false; false if there is no such field."""
        flags = self.flags(field) if self.has(field) else False
        return np.full(len(self.table), flags) if isinstance(flags, bool) else np.array(flags)

    def flags(self, field: str) -> Sequence[bool] | bool:
        """The field as true or false; True if there is no such field."""
        texts = self.texts(field)
        if texts is None:
            return True
        found = [_FLAGS.get(text.lower()) for text in texts]
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


def _filled(table: Table, defaults: Mapping[str, str]) -> Table:
    columns = dict(table.columns)
    for name, default in defaults.items():
        columns[name] = [cell or default for cell in columns[name]]
    return Table(table.path, columns, table.lines)
