"""Readers of throughput tables: CSV files, and tables inside a profile."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

from harness.files.bounded_file import opened_plain
from harness.profiles.document import Document, KeyPath

Cells = dict[int, dict[int, float]]
"""Samples per second by global batch and slot count; cells that were not measured are absent."""

UNITS = ("iterations_per_s", "samples_per_s")


def count(value: object) -> int | None:
    """Return the value as a whole number of at least 1, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if number >= 1 else None


def number(value: object) -> float | None:
    """Return the value as a number (NaN and infinity included), or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:  # an integer too large for a float; as text it also gives infinity
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def _speed(value: object) -> float | None:
    """Return a throughput; NaN if not measured (empty, ``nan`` or 0), None if wrong."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return math.nan
    found = number(value)
    if found is None or math.isinf(found) or found < 0:
        return None
    return math.nan if found == 0 else found


def read_csv(path: Path, unit: str, problems: list[str]) -> Cells:
    """Read a table in ElasticFlow's layout.

    First column ``global_batch_size``, then one column per slot count; values are iterations
    (or samples) per second of the whole job at that global batch. Cells that are empty,
    ``nan`` or 0 were not measured and are left out.
    """
    try:
        with io.TextIOWrapper(opened_plain(path, follow=True), "utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        is_text = not isinstance(error, UnicodeDecodeError)
        reason = getattr(error, "strerror", None) or (error if is_text else "it is not UTF-8 text")
        problems.append(f"{path}: cannot be read ({reason}); check the file's name")
        return {}
    if not rows or not rows[0] or rows[0][0].strip() != "global_batch_size":
        problems.append(
            f"{path}:1: the first column is not 'global_batch_size'; give a header such as"
            " 'global_batch_size,1,2,4'"
        )
        return {}
    header: list[int] = []
    for name in rows[0][1:]:
        slots = count(name)
        if slots is None:
            problems.append(f"{path}:1: column {name!r} is not a slot count; use 1, 2, 4, ...")
        elif slots in header:
            problems.append(f"{path}:1: slot count {slots} has two columns; keep one of them")
        header.append(slots or 0)
    cells: Cells = {}
    for line, row in enumerate(rows[1:], start=2):
        if not any(value.strip() for value in row):
            continue
        batch = count(row[0])
        if batch is None:
            problems.append(f"{path}:{line}: global batch {row[0]!r} is not a whole number >= 1")
            continue
        if batch in cells:
            problems.append(f"{path}:{line}: global batch {batch} is given twice; keep one row")
        if len(row) != len(header) + 1:
            problems.append(
                f"{path}:{line}: {len(row)} cells under a header of {len(header) + 1}; leave a"
                " cell empty where nothing was measured, but keep its comma"
            )
            continue
        cells[batch] = {}
        for slots, value in zip(header, row[1:], strict=True):
            speed = _speed(value)
            if speed is None:
                problems.append(
                    f"{path}:{line}: throughput {value!r} at {slots} slots is not a finite number"
                    " >= 0; leave the cell empty if it was not measured"
                )
            elif not math.isnan(speed):
                cells[batch][slots] = speed * batch if unit == "iterations_per_s" else speed
    return _measured(cells, str(path), problems)


def read_table(document: Document, keys: KeyPath, table: object, problems: list[str]) -> Cells:
    """Read ``samples_per_s`` (global batch → slots → samples per second) of a profile file."""
    if not isinstance(table, Mapping):
        problems.append(
            f"{document.place(*keys)}: is not a table; write global batch → slots → samples/s,"
            " for example {64: {1: 120.0, 2: 230.0}}"
        )
        return {}
    cells: Cells = {}
    for batch_key, row in table.items():
        here = (*keys, batch_key)
        batch = count(batch_key)
        if batch is None or not isinstance(row, Mapping):
            problems.append(
                f"{document.place(*here)}: is not a global batch with a row of slot counts;"
                " write for example 64: {1: 120.0, 2: 230.0}"
            )
            continue
        cells[batch] = {}
        for slots_key, value in row.items():
            slots, speed = count(slots_key), _speed(value)
            if slots is None:
                problems.append(
                    f"{document.place(*here, slots_key)}: {slots_key!r} is not a slot count;"
                    " use 1, 2, 4, ..."
                )
            elif speed is None:
                problems.append(
                    f"{document.place(*here, slots_key)}: throughput {value!r} is not a finite"
                    " number >= 0; use null if it was not measured"
                )
            elif not math.isnan(speed):
                cells[batch][slots] = speed
    return _measured(cells, document.place(*keys), problems)


def _measured(cells: Cells, place: str, problems: list[str]) -> Cells:
    """Return the cells without the batches that have no measured cell."""
    measured = {batch: row for batch, row in cells.items() if row}
    if not measured:
        problems.append(
            f"{place}: no throughput was measured at all; remove the workload or fill in cells"
        )
    return measured
