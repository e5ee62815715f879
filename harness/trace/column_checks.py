"""Options of ``ColumnsReader`` that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.problems import suggest
from harness.trace.cells import DATE, FIELDS, UNITS
from harness.trace.job import DeadlineKind

if TYPE_CHECKING:
    from harness.trace.columns import ColumnsReader

TIMES = ("arrival", "duration", "deadline", "start", "end")
SCALED = ("slots", "batch", "work")
"""Fields that ``scale`` may multiply."""
_REQUIRED = ("arrival", "slots")


def contradictions(reader: ColumnsReader) -> list[str]:
    """All of them, one a line, each with the way out."""
    return [*_unknown(reader), *_twice(reader), *_times(reader), *_work(reader), *_rest(reader)]


def _unknown(reader: ColumnsReader) -> list[str]:
    problems = [
        f"unknown field {name!r} in {option}; {suggest(name, allowed)}"
        for option, names, allowed in (
            ("columns", reader.columns, FIELDS),
            ("constants", reader.constants, FIELDS),
            ("defaults", reader.defaults, FIELDS),
            ("patterns", reader.patterns, FIELDS),
            ("scale", reader.scale, SCALED),
            ("units", reader.units, TIMES),
        )
        for name in names
        if name not in allowed
    ]
    return problems + [
        f"unknown unit {unit!r} of {name}; {suggest(unit, UNITS)}"
        for name, unit in reader.units.items()
        if unit not in UNITS
    ]


def _twice(reader: ColumnsReader) -> list[str]:
    given = {**reader.columns, **reader.constants}
    problems = [
        f"field {name!r} has neither a column nor a constant; name its column in columns"
        for name in _REQUIRED
        if name not in given
    ]
    problems += [
        f"field {name!r} has a column and a constant; keep one (defaults fill empty cells)"
        for name in reader.columns
        if name in reader.constants
    ]
    problems += [
        f"field {name!r} has a default but no column; put the value into constants"
        for name in reader.defaults
        if name not in reader.columns
    ]
    problems += [
        f"field {name!r} has a pattern but no column; name its column in columns"
        for name in reader.patterns
        if name not in reader.columns
    ]
    problems += [f"columns.{name} is empty" for name, names in reader.columns.items() if not names]
    return problems + [
        f"constants.{name} is a mapping; give one value for all jobs"
        for name in ("workload", "job_id")
        if isinstance(reader.constants.get(name), Mapping)
    ]


def _times(reader: ColumnsReader) -> list[str]:
    given = {**reader.columns, **reader.constants}
    problems = []
    if reader.units.get("duration") == DATE:
        problems.append("the unit of duration is 'date'; give s, ms, min, h or d")
    if reader.deadlines == "relative" and reader.units.get("deadline") == DATE:
        problems.append("deadline is a date, so it is absolute; set deadlines: absolute")
    if ("start" in given) != ("end" in given):
        problems.append("start and end make a duration together; name the columns of both")
    if "start" in given and "duration" in given:
        problems.append("a duration has a column, and start and end as well; keep one of the two")
    return problems


def _work(reader: ColumnsReader) -> list[str]:
    given = {**reader.columns, **reader.constants}
    problems = []
    if "work" in given and reader.work == "slot_seconds":
        problems.append(
            "work in slot_seconds comes from duration x slots; leave out the field work"
        )
    if reader.work in ("iterations", "epochs") and "work" not in given:
        problems.append(f"work counts {reader.work} but has no column; name it in columns")
    if reader.work == "epochs" and not reader.samples_per_epoch:
        problems.append("work counts epochs; give samples_per_epoch, a size for each workload")
    if not {"work", "duration", "start"} & set(given):
        problems.append("neither work nor duration is known; name the column of one of them")
    return problems


def _rest(reader: ColumnsReader) -> list[str]:
    problems = []
    if reader.deadline_kind is DeadlineKind.NONE:
        problems.append("deadline_kind is 'none'; leave out the field deadline instead")
    if len(reader.delimiter) != 1:
        problems.append(f"delimiter is {reader.delimiter!r}; give one character")
    for field, pattern in reader.patterns.items():
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            problems.append(f"patterns.{field} is no regular expression: {error}")
            continue
        if groups != 1:
            problems.append(
                f"patterns.{field} has {groups} groups; put the one part that counts in ( )"
            )
    problems += [
        f"scale.{field} is {factor}; give a number above 0"
        for field, factor in reader.scale.items()
        if not factor > 0
    ]
    return problems
