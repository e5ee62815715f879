"""Answer of runs that compare systems: which is best, by how much, on how many inputs."""

from __future__ import annotations

from collections.abc import Sequence

from harness.answer.block import MOST_COLUMNS, MOST_ROWS, Block
from harness.answer.contrast import Contrast
from harness.answer.differences import Difference, cell, said, times
from harness.answer.factors import Subject
from harness.answer.measures import Measure, further, in_order
from harness.answer.units import capital, counted, listed, span

_MOST_SENTENCES = 3
_PAUSE = "pause per change"
_LARGE = 1.5
"""Ratio of pauses from which it is said as so many times."""


def compare(found: Sequence[Subject]) -> Block | None:
    """Return the block of runs of at least two systems; None if no measure tells of them."""
    measures = in_order(found)
    whole = by_system(found)
    measures = [m for m in measures if len(whole.known(m)) > 1]
    if not measures:
        return None
    sentences: list[str] = []
    for contrast in contrasts(found):
        told = [m for m in measures if _tells(contrast, m)]
        room = 2 if len(contrasts(found)) > 1 or len(told) > 1 else _MOST_SENTENCES
        sentences += [sentence(contrast, measure) for measure in told[:room]]
    sentences = [each for each in dict.fromkeys(sentences) if each][:_MOST_SENTENCES]
    if not sentences:
        count = counted(len(whole.levels), whole.what)
        sentences = [f"The {count} ran on different inputs, so no difference is told."]
    first = next((m for m in measures if m.varies), measures[0])
    header, rows, note = _table(whole, first, [*measures, *further(found)])
    return Block(tuple(sentences), header, rows, note)


def by_system(found: Sequence[Subject]) -> Contrast:
    """Return the contrast of all systems."""
    groups = [*dict.fromkeys(group for subject in found for group in subject.factors)]
    what = groups[0] if len(groups) == 1 and groups[0] in ("scheduler", "backend") else "system"
    return Contrast(found, lambda s: s.system, lambda s: (s.inputs, s.trial), what)


def contrasts(found: Sequence[Subject]) -> list[Contrast]:
    """Return what sentences are about: backends and schedulers apart where both vary."""
    parts = []
    for group in ("backend", "scheduler"):
        if len({s.factors.get(group) for s in found}) > 1:
            parts.append(
                Contrast(
                    found,
                    lambda s, group=group: s.factors[group],  # type: ignore[misc]
                    lambda s, group=group: (  # type: ignore[misc]
                        *(own for name, own in s.factors.items() if name != group),
                        s.inputs,
                        s.trial,
                    ),
                    group,
                    is_crossed=True,
                )
            )
    both = len(parts) == 2 and all(part.is_complete for part in parts)
    return parts if both else [by_system(found)]


def _tells(contrast: Contrast, measure: Measure) -> bool:
    """Return whether a measure is about what the contrast compares."""
    if len(contrast.known(measure)) < 2 or not measure.best[0]:
        return False
    is_of_changes = measure.heading in (_PAUSE, "samples lost")
    return contrast.what != "scheduler" or not is_of_changes


def sentence(contrast: Contrast, measure: Measure, where: str = "") -> str:
    """Return one sentence: the best system, its number, and the difference from the baseline.

    It is empty if the best system and the baseline share no input.

    Args:
        contrast: systems.
        measure: measure that the sentence is about.
        where: words before it, such as ``At load 1.5``.
    """
    known = contrast.known(measure)
    leaders = contrast.leaders(measure)
    if not leaders:
        return ""
    base, best = contrast.baseline(measure), leaders[0]
    if not contrast.shares_all(measure):
        return _on_shared(contrast, measure, base)
    values = {name: contrast.value(measure, name) for name in known}
    start = f"{where}, " if where else ""
    noun = measure.noun if where else capital(measure.noun)
    many = counted(len(known), contrast.what)
    if len({*values.values()}) == 1:
        what = f"both {contrast.what}s" if len(known) == 2 else f"all {many}"
        return f"{start}{noun} is the same for {what}, {measure.show(values[base])}."
    ends = span(measure.show(values[best]), measure.show(values[leaders[-1]]))
    over = _over(contrast, measure, leaders[-1], best)
    names = [contrast.named(level) for level in leaders]
    if len(leaders) == len([name for name in known if not contrast.is_bound(name)]) > 1:
        what = f"the {counted(len(leaders), contrast.what)}" if len(leaders) > 2 else listed(names)
        return f"{start}{noun} is not distinguishable between {what}: {ends}{over}."
    if len(leaders) > 1:
        text = f"{start}{listed(names)} {measure.best[1]}, {ends}, and are not distinguishable"
        if base not in leaders:
            text += f"; {contrast.named(base)}: {measure.show(values[base])}"
        return f"{text}{over}."
    if measure.heading == _PAUSE:
        told = _pause(contrast, measure, best, base, values)
        return start + told if told else ""
    text = f"{start}{names[0]} {measure.best[0]}, {measure.show(values[best])}"
    if best == base:
        ranked = [n for n in contrast.ranked(measure) if n in known and n != best]
        other = next((n for n in ranked if not contrast.is_bound(n)), ranked[0])
        found = contrast.difference(measure, other, base)
        if found is None:
            return ""
        told = said(found, "it", measure.is_share)
        return f"{text}; the next, {contrast.named(other)}, is {told}{scope(contrast, found)}."
    found = contrast.difference(measure, best, base)
    if found is None:
        return ""
    worst = "" if contrast.is_usual(base) else ", the worst"
    told = said(found, contrast.named(base), measure.is_share)
    return f"{text}: {told}{worst}{scope(contrast, found)}."


def _on_shared(contrast: Contrast, measure: Measure, base: str) -> str:
    """Return the largest improvement on the baseline, where no input is common to all systems.

    Their values cannot be compared then, but pairs of runs on the same input can.
    """
    better = -1 if measure.least_is_best else 1
    gaps = {
        level: found
        for level in contrast.known(measure)
        if level != base and not contrast.is_bound(level)
        if (found := contrast.difference(measure, level, base)) and found.side == better
    }
    if not gaps:
        return ""
    best = min(gaps, key=lambda level: (-better * gaps[level].value, level))
    told = said(gaps[best], contrast.named(base), measure.is_share)
    return (
        f"On inputs that both have, {measure.noun} of {contrast.named(best)} is {told}"
        f"{scope(contrast, gaps[best])}."
    )


def _pause(
    contrast: Contrast, measure: Measure, best: str, base: str, values: dict[str, float]
) -> str:
    other = base if base != best else contrast.ranked(measure)[1]
    found = contrast.difference(measure, other, best)
    if found is None:
        return ""
    ratio = values[other] / values[best] if values[best] else 0.0
    longer = f": {times(ratio)} longer" if ratio >= _LARGE else ""
    text = f"{contrast.named(best)} stops training for {measure.show(values[best])} at the median"
    end = scope(contrast, found)
    return f"{text}, {contrast.named(other)} for {measure.show(values[other])}{longer}{end}."


def _over(contrast: Contrast, measure: Measure, one: str, other: str) -> str:
    """Return on how many inputs two systems were compared, as the end of a sentence."""
    found = contrast.difference(measure, one, other) if one != other else None
    if found is None:
        return ""
    if found.num_pairs == 1:
        return ", on this one input"
    return f", on {found.num_pairs} {contrast.pairs_noun()}"


def scope(contrast: Contrast, found: Difference) -> str:
    """Return on how many inputs a difference has its sign, as the end of a sentence."""
    if found.num_pairs == 1:
        return ", on this one input"
    noun, count = contrast.pairs_noun(), found.num_pairs
    agreeing = max(found.num_below, found.num_above)
    if agreeing < count:
        return f", on {agreeing} of {count} {noun}"
    return f", on {'both' if count == 2 else f'all {count}'} {noun}"


def _table(
    contrast: Contrast, first: Measure, measures: Sequence[Measure]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str]:
    base = contrast.baseline(first)
    ranked = contrast.ranked(first)
    others = [m for m in measures if m is not first and m.values and m.varies]
    columns = others[: MOST_COLUMNS - 3]
    header = (
        contrast.what,
        first.heading,
        f"vs {contrast.named(base)}",
        *(m.heading for m in columns),
    )
    shown = ranked
    if len(ranked) > MOST_ROWS:
        shown = ranked[:MOST_ROWS]
        if base not in shown:
            shown = [*shown[:-1], base]
    differences = []
    rows = []
    for level in shown:
        known = level in contrast.known(first)
        found = contrast.difference(first, level, base) if known and level != base else None
        differences += [found] if found else []
        rows.append(
            (
                contrast.shown(level),
                first.show(contrast.value(first, level)) if known else "",
                "baseline" if level == base else cell(found, first.is_share) if found else "",
                *(
                    m.show(contrast.value(m, level)) if level in contrast.known(m) else ""
                    for m in columns
                ),
            )
        )
    return header, tuple(rows), _note(contrast, first, differences, len(ranked) - len(shown))


def _note(
    contrast: Contrast, first: Measure, differences: Sequence[Difference], num_left: int
) -> str:
    most = max((d.num_pairs for d in differences), default=1)
    noun, kind = contrast.pairs_noun(), "Medians" if first.heading == _PAUSE else "Means"
    if most == 1:
        texts = ["One run each, so no intervals."]
    else:
        texts = [f"{kind} over {most} {noun}; differences are means over pairs of runs"]
        ends = (
            "with 95 % intervals (Student's t)"
            if any(d.is_interval for d in differences)
            else ("with the least and the largest pair")
        )
        texts[0] += f", {ends}."
    if not contrast.shares_all(first):
        texts.append("No input is common to all rows; a row is compared on what it shares.")
    if not contrast.is_usual(contrast.baseline(first)):
        texts.append("The baseline is the worst row, because none of the usual ones was run.")
    if num_left:
        texts.append(f"{num_left} more rows are in the full table.")
    return " ".join(texts)
