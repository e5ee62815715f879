"""Numbers as people read them: 3.0 h, 27.6 min, 4.1 ms, 39 %."""

from __future__ import annotations

MINUS = "−"
_TIMES = (
    (172_800.0, 86_400.0, "days"),
    (7200.0, 3600.0, "h"),
    (120.0, 60.0, "min"),
    (1.0, 1.0, "s"),
)
"""Least seconds of a unit, its length in seconds, and its name; longest first."""


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for least_s, unit_s, name in _TIMES:
        if abs(seconds) >= least_s:
            return f"{_short(seconds / unit_s)} {name}"
    return f"{_short(1000 * seconds)} ms" if seconds else "0 s"


def percent(share: float) -> str:
    """Return a share in percent, with more digits the smaller it is."""
    value = 100 * share
    form = ".0f" if abs(value) >= 10 or value == 0 else ".1f" if abs(value) >= 1 else ".2g"
    return f"{_signed(value, form)} %"


def number(value: float) -> str:
    """Return a count or a rate with three digits at least, and no more than it needs."""
    if abs(value) >= 100 or value == round(value):
        return _signed(value, ",.0f")
    return _signed(value, ".3g")


def counted(count: float, what: str) -> str:
    """Return a count and its noun, in the plural unless it is 1."""
    return f"{count:,.0f} {what}{'' if count == 1 else 's'}"


def capital(text: str) -> str:
    """Return a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def span(low: str, high: str) -> str:
    """Return two shown numbers as a range; one if they look the same."""
    return low if low == high else f"{low} to {high}"


def listed(names: list[str], most: int = 3) -> str:
    """Return names as a list in prose; those after ``most`` are counted."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _short(value: float) -> str:
    return _signed(value, ",.0f" if abs(value) >= 99.95 else ".1f" if abs(value) >= 0.1 else ".2g")


def _signed(value: float, form: str) -> str:
    return format(value, form).replace("-", MINUS)
