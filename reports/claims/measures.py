"""Pure functions from a study's records to the numbers that a criterion judges.

Every number belongs to one trial. Trials of two compared systems are paired by cell (the
criterion's ``each``), seed and repetition, so that common effects cancel out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import StoredDataError
from harness.results.tables import TableError
from reports.claims.group_numbers import GROUP_NUMBERS
from reports.claims.ledger import Criterion
from reports.claims.numbers import NUMBERS
from reports.runs.selection import ReportRun, options

Cell = tuple[str, ...]
"""Values of a criterion's ``each``."""


class MeasureError(StoredDataError):
    """Error for records that do not fit the criterion; the text says why."""


@dataclass(frozen=True)
class Sample:
    """Number of one trial for one cell."""

    cell: Cell
    value: float
    run_ids: tuple[str, ...]


def samples(criterion: Criterion, runs: Iterable[ReportRun]) -> list[Sample]:
    """Return the trials' numbers with their cells; empty if no run fits.

    Raises:
        MeasureError: several runs fit one side of a trial, so that the criterion is ambiguous; or
            the records do not give a number.
    """
    runs = list(runs)
    if criterion.measure == "trend":
        return list(_slopes(criterion, runs))
    if criterion.measure == "group":
        return list(_groups(criterion, runs))
    of = _by_trial(criterion, criterion.of, runs)
    if criterion.over is None:
        return [Sample(key[0], value, (run,)) for key, (value, run) in of.items()]
    found = _paired(criterion, of, _by_trial(criterion, criterion.over, runs))
    if criterion.beside is None:
        return [sample for _, sample in found]
    other = _paired(criterion, *(_by_trial(criterion, criterion.beside[k], runs) for k in _SIDES))
    beside = dict(other)
    return [
        Sample(key[0], one.value / beside[key].value, one.run_ids + beside[key].run_ids)
        for key, one in found
        if key in beside
    ]


_Trial = tuple[Cell, tuple[int, int]]
_Values = Mapping[_Trial, tuple[float, str]]
_SIDES = ("of", "over")


def _paired(criterion: Criterion, of: _Values, over: _Values) -> list[tuple[_Trial, Sample]]:
    found = []
    for key in sorted(of.keys() & over.keys()):
        (value, run), (other, other_run) = of[key], over[key]
        if criterion.measure == "difference":
            effect = value - other
        elif other > 0 and value > 0:
            effect = value / other
        else:
            raise MeasureError(f"{criterion.metric} is {value} over {other}: no ratio")
        found.append((key, Sample(key[0], effect, (run, other_run))))
    return found


def _by_trial(
    criterion: Criterion, wanted: Mapping[str, str], runs: Sequence[ReportRun]
) -> dict[_Trial, tuple[float, str]]:
    found: dict[_Trial, tuple[float, str]] = {}
    first: dict[_Trial, ReportRun] = {}
    for run, own in _fitting(wanted, runs):
        value = measured(criterion.metric, run)
        if value is None:
            continue
        key = (tuple(own.get(key, "") for key in criterion.each), run.trial)
        if key in found:
            differing = _differing(options(first[key].stored), own)
            raise MeasureError(
                f"several runs fit {dict(wanted)} in one trial; they differ in {differing}"
            )
        found[key], first[key] = (value, run.run_id), run
    return found


def _fitting(
    wanted: Mapping[str, str], runs: Iterable[ReportRun]
) -> Iterable[tuple[ReportRun, Mapping[str, str]]]:
    for run in runs:
        own = options(run.stored)
        if all(says_same(own.get(key), value) for key, value in wanted.items()):
            yield run, own


def says_same(one: str | None, other: str) -> bool:
    """Return whether two texts of options are the same, or the same number."""
    if one == other or one is None:
        return one == other
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
    return ", ".join(keys[:6]) or "nothing"


def _slopes(criterion: Criterion, runs: Sequence[ReportRun]) -> Iterable[Sample]:
    """Yield for each trial the slope of the metric over the key, by least squares."""
    points: dict[_Trial, list[tuple[float, float, str]]] = {}
    for run, own in _fitting(criterion.of, runs):
        value = measured(criterion.metric, run)
        if value is not None:
            key = (tuple(own.get(key, "") for key in criterion.each), run.trial)
            where = float(own[str(criterion.along)])
            points.setdefault(key, []).append((where, value, run.run_id))
    for (cell, _), found in sorted(points.items()):
        places = [place for place, _, _ in found]
        if len(set(places)) < len(places):
            raise MeasureError(f"several runs fit {dict(criterion.of)} at one {criterion.along}")
        if len(found) > 1:
            slope = float(np.polyfit(places, [value for _, value, _ in found], 1)[0])
            yield Sample(cell, slope, tuple(run for _, _, run in found))


def _groups(criterion: Criterion, runs: Sequence[ReportRun]) -> Iterable[Sample]:
    """Yield for each trial the number computed from all its runs that fit."""
    members: dict[_Trial, list[ReportRun]] = {}
    for run, own in _fitting(criterion.of, runs):
        key = (tuple(own.get(key, "") for key in criterion.each), run.trial)
        members.setdefault(key, []).append(run)
    for (cell, _), found in sorted(members.items()):
        try:
            value = GROUP_NUMBERS[criterion.metric](found)
        except TableError as error:
            raise MeasureError(f"no {criterion.metric}: {error}") from None
        if value is not None:
            yield Sample(cell, value, tuple(run.run_id for run in found))


def measured(metric: str, run: ReportRun) -> float | None:
    """Return a run's number, from ``NUMBERS`` or its stored metrics; None without a finite number.

    Raises:
        MeasureError: the number needs a table that was left out of the copied run.
    """
    if metric in NUMBERS:
        try:
            value = NUMBERS[metric](run)
        except TableError as error:
            raise MeasureError(f"no {metric}: {error}") from None
    else:
        value = run.metrics.get(metric)
    return value if value is not None and math.isfinite(value) else None
