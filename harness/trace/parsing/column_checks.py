"""Checks for options of ``ColumnsReader`` that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from harness.contracts.job import DeadlineKind
from harness.errors import suggest
from harness.trace.parsing.cells import DATE, FIELDS, PARTS, UNITS
from harness.trace.parsing.column_options import ColumnOptions
from harness.trace.parsing.date_formats import format_problems
from harness.trace.parsing.row_choice import expressions

TIMES = ("arrival", "duration", "deadline", "start", "end")
SCALED = ("slots", "batch", "work")
"""Fields that ``scale`` may multiply."""
_REQUIRED = ("arrival", "slots")


def contradictions(reader: ColumnOptions) -> list[str]:
    """Return all contradictions between the reader's options, one line each, with the way out."""
    return [*_unknown(reader), *_twice(reader), *_times(reader), *_work(reader), *_rest(reader)]


def _unknown(reader: ColumnOptions) -> list[str]:
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


def _twice(reader: ColumnOptions) -> list[str]:
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


def _times(reader: ColumnOptions) -> list[str]:
    given = {**reader.columns, **reader.constants}
    problems = []
    if reader.units.get("duration") == DATE:
        problems.append("the unit of duration is 'date'; give s, ms, min, h, d or hms")
    if reader.deadlines == "relative" and reader.units.get("deadline") == DATE:
        problems.append("deadline is a date, so it is absolute; set deadlines: absolute")
    if (
        reader.deadlines == "absolute"
        and reader.units.get("deadline") == PARTS
        and reader.units.get("arrival") == DATE
    ):
        problems.append("deadline is a duration, no date; set deadlines: relative")
    problems += [
        f"constants.{name} is one value, of unit {unit}; give it a column, or another unit"
        for name, unit in reader.units.items()
        if unit in (DATE, PARTS) and name in reader.constants
    ]
    if reader.date_format is not None:
        problems += format_problems(reader.date_format)
    problems += _zone(reader)
    if ("start" in given) != ("end" in given):
        problems.append("start and end make a duration together; name the columns of both")
    if "start" in given and "duration" in given:
        problems.append("both the duration and start and end have columns; keep one of the two")
    return problems


def _zone(reader: ColumnOptions) -> list[str]:
    problems: list[str] = []
    if reader.time_zone is None and reader.repeated_hour == "refuse":
        return problems
    if DATE not in reader.units.values():
        problems.append(
            "time_zone and repeated_hour are for dates; set the unit of a field to date"
        )
    if reader.time_zone is None:
        problems.append("repeated_hour is for dates of a time_zone; set it, UTC repeats no hour")
        return problems
    try:
        ZoneInfo(reader.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zones = available_timezones()
        near = suggest(reader.time_zone, zones).partition("known: ")[0] if zones else ""
        if not zones:
            near = "this system has no time zones at all: install tzdata; or "
        problems.append(
            f"there is no time zone {reader.time_zone!r}; {near}name one as Europe/Berlin,"
            " Asia/Shanghai or UTC"
        )
    return problems


def _work(reader: ColumnOptions) -> list[str]:
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


def _rest(reader: ColumnOptions) -> list[str]:
    problems = []
    if reader.deadline_kind is DeadlineKind.NONE:
        problems.append("deadline_kind is 'none'; leave out the field deadline instead")
    if len(reader.delimiter) != 1:
        problems.append(f"delimiter is {reader.delimiter!r}; give one character")
    if reader.no_value and "" in reader.no_value:
        problems.append("no_value lists an empty text; leave it out, an empty cell is no value")
    for option in ("keep_matching", "drop_matching"):
        for column, patterns in expressions(getattr(reader, option)):
            problems += [
                f"{option}.{column} {pattern!r} is no regular expression: {error}"
                for pattern in patterns
                if (error := _pattern_error(pattern))
            ]
            if not patterns:
                problems.append(f"{option}.{column} is empty; give a regular expression")
    for field, pattern in reader.patterns.items():
        if error := _pattern_error(pattern):
            problems.append(f"patterns.{field} is no regular expression: {error}")
        elif (groups := re.compile(pattern).groups) != 1:
            problems.append(
                f"patterns.{field} has {groups} groups; put the one part that counts in ( )"
            )
    problems += [
        f"scale.{field} is {factor}; give a number above 0"
        for field, factor in reader.scale.items()
        if not factor > 0
    ]
    return problems


def _pattern_error(pattern: str) -> str:
    """Return why a text is no regular expression; empty if it is one."""
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return ""
