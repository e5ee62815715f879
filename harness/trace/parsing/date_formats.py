"""Checks of date formats that ``strptime`` accepts but that would lose a part of the date."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DIRECTIVE = re.compile(r"%(.)", re.DOTALL)
_YEARS = frozenset("YyGcx")
_DAYS = (set("md"), set("bd"), set("Bd"), set("j"), set("c"), set("x"))
"""Sets of directives, each of which together gives a day of a year."""
_WEEKS, _WEEKDAYS = frozenset("UWV"), frozenset("aAwu")


def format_problems(date_format: str) -> list[str]:
    """Return the mistakes of a format, one line each, with the way out."""
    named = f"date_format {date_format!r}"
    try:
        _tried(date_format)
    except (ValueError, re.error) as error:
        return [f"{named} cannot be read: {error}; give directives of Python's strptime"]
    given = set(_DIRECTIVE.findall(date_format))
    problems = []
    if "Z" in given and "z" not in given:
        problems.append(
            f"{named} takes a zone's name with %Z and ignores it; use %z for +02:00, or cut the"
            " zone off with patterns and set time_zone"
        )
    if "I" in given and "p" not in given:
        problems.append(f"{named} has 12 hours (%I) without %p; add %p, or use %H")
    if "p" in given and "I" not in given:
        problems.append(
            f"{named} has %p, which counts only with %I; use %I, or cut %p off with patterns"
        )
    if not given & _YEARS:
        problems.append(f"{named} has no year; give a column of whole dates")
    elif not any(day <= given for day in _DAYS) and not (given & _WEEKS and given & _WEEKDAYS):
        problems.append(f"{named} has no day; give a column of whole dates")
    return problems


def _tried(date_format: str) -> None:
    """Write a date in the format and read it back; this fails for unknown directives."""
    written = datetime(2017, 10, 7, 15, 3, 54, tzinfo=UTC).strftime(date_format)
    datetime.strptime(written, date_format)
