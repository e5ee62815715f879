"""Record lists as gzip CSV files: one file per kind, with the record's fields as columns.

Floats read back to the same bits. Slots are written as ``0 1 2``, phases as JSON, a missing number
as an empty cell. The bytes depend on the records alone: the gzip header has no time stamp and no
file name.
"""

from __future__ import annotations

import contextlib
import csv
import gc
import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import StoredDataError
from harness.files.bounded_file import opened_plain, parse_json
from harness.results import records

if TYPE_CHECKING:
    import pandas as pd

COMPRESS_LEVEL = 1
"""Gzip level of the tables: here level 1 is 4 times faster than 9, with 15% larger files."""

LATENCIES = "latencies"
_LATENCY_COLUMN = "latency_us"
RECORD_TYPES: Mapping[str, type[Any]] = {
    "jobs": records.JobRecord,
    "grants": records.GrantRecord,
    "changes": records.ChangeRecord,
    "decisions": records.DecisionRecord,
    "outages": records.OutageRecord,
    "steps": records.StepRecord,
    "evaluations": records.EvaluationRecord,
    "system": records.SystemRecord,
    "faults": records.FaultRecord,
    "slowings": records.SlowingRecord,
    "accusations": records.AccusationRecord,
    "fixed_size": records.FixedSizeRecord,
    "fixed_losses": records.FixedLossRecord,
}
"""Kind of record by table name, which is also the attribute of ``RunRecords``."""
TABLES = (*RECORD_TYPES, LATENCIES)


_MOST_WHOLE = 1 << 63
"""Bound of whole numbers, because NumPy and pandas hold them in 64 bits."""
_UNREADABLE = (OSError, ValueError, csv.Error)


class TableError(StoredDataError):
    """Failure to read a table; the text names the file, the fact and the way out."""


class _Memo(dict[Any, Any]):
    """Cache of results by value, because slots and phases repeat thousands of times."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self._function(key)
        return value


def _join(slots: tuple[int, ...]) -> str:
    return " ".join(map(str, slots))


def _split(text: str) -> tuple[int, ...]:
    return tuple(map(_whole, text.split()))


def _phases(items: tuple[tuple[str, float], ...]) -> str:
    return json.dumps(dict(items)) if items else ""


def _parse_phases(text: str) -> dict[str, float]:
    found = parse_json(text) if text else {}
    if not isinstance(found, dict) or not all(
        type(each) in (int, float) for each in found.values()
    ):
        raise ValueError(f"{text[:40]!r} is no mapping of phases to seconds")
    return found


def _whole(text: str) -> int:
    found = int(text)
    if not -_MOST_WHOLE <= found < _MOST_WHOLE:
        raise ValueError(f"{text[:40]} is no whole number of 64 bits")
    return found


def _optional(text: str) -> float | None:
    return float(text) if text else None


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "int": _whole,
    "float": float,
    "float | None": _optional,
    "tuple[int, ...]": _split,
    "Mapping[str, float]": _parse_phases,
}

_DTYPES = {"int": "int64", "float": "float64", "float | None": "float64"}


def columns(name: str) -> dict[str, str]:
    """Return the column names of a table and their types, as the record declares them."""
    if name == LATENCIES:
        return {_LATENCY_COLUMN: "int"}
    return {field.name: str(field.type) for field in fields(RECORD_TYPES[name])}


def _encoded(rows: Sequence[Any], name: str, kind: str) -> Iterable[Any]:
    """Return one column as values that ``csv`` can write."""
    values = map(attrgetter(name), rows)
    if kind == "tuple[int, ...]":
        return map(_Memo(_join).__getitem__, values)
    if kind == "Mapping[str, float]":
        memo = _Memo(_phases)
        return (memo[tuple(value.items())] if value else "" for value in values)
    return values


class _Sink(io.RawIOBase):
    """Stream that compresses its input and keeps the digest of the plain bytes."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._packed.write(data)


def write_table(path: Path, name: str, rows: Sequence[Any]) -> str:
    """Write the rows and flush them to the disk; return the SHA-256 of the plain CSV.

    Raises:
        OSError: the disk is full, or the file cannot be written.
    """
    kinds = columns(name)
    with path.open("wb") as raw:
        packed = gzip.GzipFile("", "wb", COMPRESS_LEVEL, raw, mtime=0)
        sink = _Sink(packed)
        text = io.TextIOWrapper(io.BufferedWriter(sink, 1 << 20), "utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(kinds)
        if name == LATENCIES:
            writer.writerows(zip(rows))
        else:
            cells = (_encoded(rows, *column) for column in kinds.items())
            writer.writerows(zip(*cells, strict=True))
        text.flush()
        packed.close()
        raw.flush()
        os.fsync(raw.fileno())
    return sink.digest.hexdigest()


def read_table(path: Path, name: str) -> list[Any]:
    """Return the rows of a table as records (integers for the latencies).

    Raises:
        TableError: the file is damaged or its columns are not those of this version.
    """
    with _collection_off():
        parsed = _read_columns(path, name)
        if name == LATENCIES:
            return parsed[0]
        return list(map(RECORD_TYPES[name], *parsed))


@contextlib.contextmanager
def _collection_off() -> Iterator[None]:
    """Turn the garbage collector off: records have no reference cycles, and collecting would double
    the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def read_frame(path: Path, name: str) -> pd.DataFrame:
    """Return a table as a data frame: slots as tuples, phases as dictionaries, missing values as
    NaN.

    Without the file (an empty table) the frame has its columns and no rows.

    Raises:
        TableError: as for ``read_table``.
    """
    import pandas as pd

    kinds = columns(name)
    parsed = _read_columns(path, name) if path.exists() else [[] for _ in kinds]
    series = {
        column: pd.Series(values, dtype=_DTYPES.get(kind, "object"))
        for (column, kind), values in zip(kinds.items(), parsed, strict=True)
    }
    return pd.DataFrame(series)


def _read_columns(path: Path, name: str) -> list[list[Any]]:
    """Return the parsed values of every column, in the order of the record's fields.

    An earlier version may have written the table without its last columns. Columns whose values may
    be missing are None throughout then.
    """
    kinds = columns(name)
    try:
        with io.TextIOWrapper(opened_plain(path), "utf-8", newline="") as text:
            reader = csv.reader(text)
            num_found = _check_header(path, next(reader, []), list(kinds), _num_needed(name))
            cells = list(zip(*reader, strict=True)) or [() for _ in range(num_found)]
        parsed: list[list[Any]] = [
            list(map(_parser(kind), column))
            for kind, column in zip(list(kinds.values())[:num_found], cells, strict=True)
        ]
    except _UNREADABLE as error:
        raise TableError(
            f"{path}: damaged ({error}); run the point again to write a new one"
        ) from error
    num_rows = len(parsed[0])
    return [*parsed, *([None] * num_rows for _ in range(len(kinds) - num_found))]


def _num_needed(name: str) -> int:
    """Return the number of columns up to the last one that a record needs."""
    if name == LATENCIES:
        return 1
    parts = fields(RECORD_TYPES[name])
    return max((n for n, part in enumerate(parts, 1) if part.default is not None), default=0)


def _parser(kind: str) -> Callable[[str], Any]:
    parse = _PARSERS[kind]
    return _Memo(parse).__getitem__ if kind.startswith("tuple") else parse


def _check_header(path: Path, found: list[str], expected: list[str], num_needed: int) -> int:
    """Return the number of expected columns that the file has: all, or at least those that records
    need.

    Raises:
        TableError: needed columns are missing, or columns are unknown.
    """
    if found != expected[: len(found)] or len(found) < num_needed:
        raise TableError(
            f"{path}: columns are {', '.join(found) or 'none'}; this version reads"
            f" {', '.join(expected)}. Run the point again, or use the version that wrote it."
        )
    return len(found)
