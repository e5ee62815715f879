"""Answer of a sweep over a number: its effect on the systems, and which is best at its ends."""

from __future__ import annotations

from collections.abc import Sequence

from harness.answer.block import MOST_ROWS, Block
from harness.answer.contrast import Contrast
from harness.answer.differences import cell, paired, times
from harness.answer.factors import Number, Subject, labelled
from harness.answer.measures import Measure, in_order
from harness.answer.systems import sentence
from harness.answer.units import capital, counted, percent, span

_LEAST_CHANGE = 0.005
"""Change over the range below which a measure is said to stay the same."""


def along(found: Sequence[Subject], number: Number) -> Block | None:
    """Return the block of a sweep over a number; None if no measure tells of it."""
    values = sorted({float(s.options[number.name]) for s in found})
    row_names = _row_names(found, number)
    rows = Contrast(
        found, lambda s: row_names[s.run.run_id], lambda s: (_at(s, number), s.trial), "system"
    )
    measures = [m for m in in_order(found) if m.varies and m.best[0]]
    if not measures:
        return None
    first = measures[0]
    ends = {value: _at_value(found, number, row_names, value) for value in (values[0], values[-1])}
    trends = {
        name: told
        for name in rows.levels
        if (told := _trend(found, number, row_names, name, first)) is not None
    }
    sentences = []
    last = ends[values[-1]]
    named = _named(last, first)
    for name in named:
        if name in trends:
            of = f" of {rows.named(name)}" if len(rows.levels) > 1 else ""
            sentences.append(_grows(first, of, trends[name], number))
    for value in (values[-1], values[0]):
        if len(ends[value].known(first)) > 1 and len(sentences) < 3:
            sentences.append(sentence(ends[value], first, f"At {number.at(value)}"))
    sentences = [each for each in sentences if each]
    if not sentences:
        return None
    middle = [v for v in values[1:-1] if v == values[len(values) // 2]]
    shown = [values[0], *middle, values[-1]]
    base = last.baseline(first) if len(last.known(first)) > 1 else None
    header = [f"{first.heading} by {last.what}" if len(rows.levels) > 1 else first.heading]
    header += [number.at(value) for value in shown]
    header += ["last vs first", *([f"vs {rows.named(base)} at the last"] if base else [])]
    order = last.ranked(first) + [n for n in rows.levels if n not in last.levels]
    cells = []
    for name in order[:MOST_ROWS]:
        row = [last.shown(name) if name in last.levels else name]
        for value in shown:
            at = _at_value(found, number, row_names, value)
            known = name in at.levels and name in at.known(first)
            row.append(first.show(at.value(first, name)) if known else "")
        row.append(cell(trends[name].difference, first.is_share) if name in trends else "")
        if base:
            gap = last.difference(first, name, base) if name in last.known(first) else None
            row.append("baseline" if name == base else cell(gap, first.is_share) if gap else "")
        cells.append(tuple(row))
    note = f"Sorted at {number.at(shown[-1])}, of {len(values)} values. Differences are means"
    note += " over pairs of runs, with 95 % intervals (Student's t) from five pairs on, else the"
    note += " least and the largest pair."
    if len(order) > MOST_ROWS:
        note += f" {len(order) - MOST_ROWS} more rows are in the full table."
    return Block(tuple(sentences), tuple(header), tuple(cells), note)


class _Trend:
    """Change of a measure of one row from the first to the last value of the number."""

    def __init__(self, lows: Sequence[float], highs: Sequence[float], measure: Measure) -> None:
        pairs = [(high, low) for low, high in zip(lows, highs, strict=True)]
        self.difference = paired(pairs, measure.is_share)
        self.first, self.last = measure.typical(lows), measure.typical(highs)
        self.measure = measure


def _trend(
    found: Sequence[Subject], number: Number, names: dict[str, str], name: str, measure: Measure
) -> _Trend | None:
    """Return the change of a row over its own range; None if no trial has both ends."""
    own = [s for s in found if names[s.run.run_id] == name and s.run.run_id in measure.values]
    if not own:
        return None
    places = sorted({_at(s, number) for s in found})
    by_place = [
        {s.trial: measure.values[s.run.run_id] for s in own if _at(s, number) == place}
        for place in (places[0], places[-1])
    ]
    shared = sorted(by_place[0].keys() & by_place[1].keys())
    if not shared:
        return None
    return _Trend([by_place[0][t] for t in shared], [by_place[1][t] for t in shared], measure)


def _named(last: Contrast, measure: Measure) -> list[str]:
    """Return the rows that sentences name: the best at the end, and the baseline."""
    known = last.known(measure)
    if len(known) < 2:
        return known or last.levels
    best = (last.leaders(measure) or known)[0]
    return [*dict.fromkeys([best, last.baseline(measure)])]


def _grows(measure: Measure, of: str, trend: _Trend, number: Number) -> str:
    start, end = measure.show(trend.first), measure.show(trend.last)
    what = capital(measure.noun) + of
    found = trend.difference
    if found.side == 0 or (found.is_ratio and abs(found.value - 1) < _LEAST_CHANGE):
        same = "stays the same" if trend.first == trend.last else "does not change distinguishably"
        return f"{what} {same} with the {number.word}: {span(start, end)}."
    verb, size = ("grows" if found.side > 0 else "falls"), ""
    if found.is_ratio:
        size = f", by {percent(abs(found.value - 1))}"
        size = f", {times(found.value)} as much" if found.value >= 2 else size
    count = counted(found.num_pairs, "trial")
    one = ", on this one input" if found.num_pairs == 1 else f", over {count}"
    return f"{what} {verb} with the {number.word}, from {start} to {end}{size}{one}."


def _at(subject: Subject, number: Number) -> float:
    return float(subject.options[number.name])


def _at_value(
    found: Sequence[Subject], number: Number, names: dict[str, str], value: float
) -> Contrast:
    own = [s for s in found if _at(s, number) == value]
    what = "scheduler" if all("scheduler" in s.factors for s in own) else "system"
    return Contrast(own, lambda s: names[s.run.run_id], lambda s: s.trial, what)


def _row_names(found: Sequence[Subject], number: Number) -> dict[str, str]:
    """Return the name of every run's row: its system and inputs, without the number."""
    rest = [
        {k: v for k, v in s.options.items() if k not in number.tied and not _is_content(k)}
        for s in found
    ]
    groups = [*dict.fromkeys(group for s in found for group in s.factors)]
    parts = [
        labelled([{k: v for k, v in own.items() if k.split(".")[0] == group} for own in rest])
        for group in groups
    ]
    inputs = labelled(
        [{k: v for k, v in own.items() if k.split(".")[0] not in groups} for own in rest]
    )
    names = {}
    for at, s in enumerate(found):
        system = " / ".join(part[at] for part in parts if part[at])
        names[s.run.run_id] = ", ".join(filter(None, [system, inputs[at]])) or "all"
    return names


def _is_content(name: str) -> bool:
    return name.endswith(".contents")
