"""Verdicts in words and numbers, as the pages show them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.results import verification_levels as levels
from reports.claims.fixed import Fixed, Made
from reports.claims.ledger import Claim, Criterion
from reports.claims.verdicts import CellVerdict, ClaimVerdict, CriterionVerdict, Direction, Status


@dataclass(frozen=True)
class Word:
    """Name and appearance of a verdict."""

    text: str
    css: str
    colour: str


WORDS: Mapping[str, Word] = {
    word.text: word
    for word in (
        Word("holds", "holds", "#0b6e4f"),
        Word("fails", "fails", "#b3261e"),
        Word("not distinguishable", "undecided", "#b07800"),
        Word("one trial", "once", "#d9b44a"),
        Word("checked by tests", "checked", "#1f6fb2"),
        Word("an input here", "given", "#8ab4d8"),
        Word("records awaited", "awaited", "#6b7580"),
        Word("no study yet", "open", "#98a1ab"),
        Word("not testable here", "not-here", "#cfd5db"),
    )
}
"""Words by their text, in the order of the report."""
AWAITED = WORDS[Status.AWAITED.value]


def word(verdict: ClaimVerdict) -> Word:
    """Return the word of an entry: its direction once it is tested, else its status."""
    found = verdict.direction or verdict.status
    return WORDS[found.value]


def counts(verdicts: Iterable[ClaimVerdict]) -> list[dict[str, Any]]:
    """Return how many entries have each word."""
    found = Counter(word(verdict) for verdict in verdicts)
    return [
        {"text": each.text, "css": each.css, "colour": each.colour, "count": found[each]}
        for each in WORDS.values()
    ]


def summary(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return one sentence on all entries."""
    by_status = Counter(verdict.status for verdict in verdicts)
    by_direction = Counter(verdict.direction for verdict in verdicts)
    tested = ", ".join(
        f"{by_direction[direction]} {text}"
        for direction, text in (
            (Direction.HOLDS, "hold"),
            (Direction.FAILS, "fail"),
            (Direction.UNDECIDED, "cannot be told from noise"),
            (Direction.ONE_TRIAL, "were measured once"),
        )
    )
    return (
        f"{len(verdicts)} entries: {by_status[Status.TESTED]} tested on records ({tested}),"
        f" {by_status[Status.CHECKED]} checked by tests, {by_status[Status.GIVEN]}"
        f" {'is an input' if by_status[Status.GIVEN] == 1 else 'are inputs'} here,"
        f" {by_status[Status.AWAITED]} await records, {by_status[Status.OPEN]} await a study,"
        f" {by_status[Status.NOT_HERE]} cannot be tested here."
    )


def claim(verdict: ClaimVerdict, studies: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that a paper's page shows for an entry.

    Args:
        verdict: verdict on the entry.
        studies: pages of the studies that have runs, by name.
    """
    entry = verdict.claim
    return {
        "id": entry.id,
        "where": entry.where,
        "short_where": short_where(entry.where),
        "kind": entry.kind.replace("_", " "),
        "shows": entry.shows,
        "relation": entry.relation.rstrip("."),
        "stated": [_stated(each) for each in entry.stated],
        "word": word(verdict),
        "criteria": [_criterion(each, studies) for each in verdict.criteria],
        "checked_by": entry.checked_by,
        "given": entry.given,
        "not_here": entry.not_here,
        "analysis": entry.analysis,
        "ablations": [_criterion(each, studies) for each in verdict.ablations],
        "is_open": verdict.status is Status.OPEN,
        "needs": needs(entry),
        "note": entry.note,
    }


def short_where(where: str) -> str:
    """Return the table, figure, algorithm or theorem named, else the first section."""
    for pattern in (r"Table \w+", r"Figs? [\w()-]+", r"Algorithm \d+", r"Theorem \d+"):
        if match := re.search(pattern, where):
            return match.group().lower()
    return where.split(";")[0].replace("Sec ", "section ").lower()


def _stated(each: Mapping[str, Any]) -> str:
    unit = f" {each['unit']}" if each.get("unit") else ""
    return f"{each['quantity']}: {each['value']}{unit}"


def needs(entry: Claim) -> str:
    """Return the kinds of experiments that could test an entry, according to the ledger."""
    names = {"cpu_machine": "a CPU machine", "one_gpu": "one GPU", "simulation": "a simulation"}
    texts = []
    for key, place in names.items():
        text = entry.needs.get(key, "no")
        how = text.removeprefix("yes").strip(" :,;()")
        if not text.startswith("no"):
            texts.append(f"{place} ({how})" if how else place)
    return "; ".join(texts)


def _criterion(verdict: CriterionVerdict, studies: Mapping[str, str]) -> dict[str, Any]:
    criterion = verdict.criterion
    awaited = f"There are no records of the study {criterion.study}."
    return {
        "title": criterion.what[:1].upper() + criterion.what[1:] or "Measured",
        "rule": rule(criterion),
        "cell_name": ", ".join(key.rsplit(".", 1)[-1] for key in criterion.each) or "all",
        "cells": [cell(criterion, one) for one in verdict.cells],
        "stated": "" if criterion.stated is None else number(criterion.stated, criterion.measure),
        "fidelity": (verdict.fidelity.value if verdict.fidelity else "").capitalize(),
        "scale": criterion.scale,
        "fixed": fixed(verdict.fixed, criterion.study),
        "problem": verdict.problem or awaited,
        "command": f"python -m harness study={criterion.study}",
        "study": criterion.study,
        "study_file": studies.get(criterion.study, ""),
    }


def fixed(found: Fixed, study: str) -> str:
    """Return a sentence on whether a criterion existed before its records, according to manifests.

    Args:
        found: which manifests have the criterion.
        study: study whose records decide the criterion.
    """
    if found.before:
        return "The criterion was fixed before the records were made: every manifest has it."
    texts = []
    for commits in found.changed.values():
        runs = _some(commits, found.num_runs)
        texts.append(f"Changed since: {runs}, made {_at(commits)}, have another form of it.")
    for made, commits in found.absent.items():
        runs = _some(commits, found.num_runs)
        texts.append(f"Not in {runs}: made {_at(commits)}{_why_absent(made, study)}.")
    return " ".join(texts)


def _some(commits: Sequence[str], num_runs: int) -> str:
    return f"the manifests of {len(commits):,} of {num_runs:,} runs"


def _at(commits: Sequence[str]) -> str:
    each = [*dict.fromkeys(commits)]
    return f"at commit{'s' if len(each) > 1 else ''} {', '.join(each)}"


def _why_absent(made: Made, study: str) -> str:
    if not made.keeps_criteria:
        return ", when manifests had no criteria yet"
    if made.study == study:
        return ", when the ledger did not have the criterion"
    whose = f"the study {made.study}" if made.study else "no study"
    return f" for {whose}, and a manifest has the criteria of its own study alone"


def rule(criterion: Criterion) -> str:
    """Return the criterion as a sentence."""
    of, over = _options(criterion.of), _options(criterion.over or {})
    what = {
        "ratio": f"{criterion.metric} of {of} over that of {over}",
        "difference": f"{criterion.metric} of {of} minus that of {over}",
        "value": f"{criterion.metric} of {of}",
        "group": f"{criterion.metric} of all runs of {of}",
        "trend": f"slope of {criterion.metric} over {criterion.along}, of {of}",
    }[criterion.measure]
    if criterion.beside is not None:
        one, other = (_options(criterion.beside[side]) for side in ("of", "over"))
        what += f", itself over that of {one} over {other}"
    ((kind, bound),) = criterion.holds_if.items()
    ends = f"{bound[0]:g} to {bound[1]:g}" if kind == "within" else f"{bound:g}"
    return f"Holds if it is {kind} {ends}: {what}."


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]}={_value(key, value)}" for key, value in options.items()
    )


def _value(key: str, value: str) -> str:
    return levels.with_level(value, levels.of_choice(value)) if key == "scheduler" else value


def cell(criterion: Criterion, cell: CellVerdict) -> dict[str, Any]:
    """Return the values that a page shows for one cell of a criterion."""
    low, high = (number(end, criterion.measure) for end in (cell.low, cell.high))
    return {
        "name": ", ".join(cell.cell) or "all",
        "value": number(cell.value, criterion.measure),
        "interval": _interval(cell, f"{low} to {high}"),
        "trials": str(cell.num_trials),
        "word": WORDS[cell.direction.value],
        "magnitude": cell.magnitude.value if cell.magnitude else "",
    }


def _interval(cell: CellVerdict, text: str) -> str:
    if cell.num_trials > 1:
        return text
    return "none: one input" if cell.low == cell.high else "none: one trial"


def number(value: float, measure: str) -> str:
    """Return a number with three significant digits or more; a ratio is shown as a multiple."""
    if abs(value) in (float("inf"),):
        return "∞" if value > 0 else "-∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        text = f"{value:.1e}"
    else:
        text = f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{text}×" if measure == "ratio" else text
