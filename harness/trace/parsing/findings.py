"""Findings on rows, among them refusals: findings that prevent a row from becoming a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Ints


@dataclass(frozen=True)
class Finding:
    """One kind of remark about some rows."""

    kind: str
    """Name of the kind in a few words, such as ``repeated rows``."""
    rows: Sequence[int]
    fact: Callable[[int], str]
    """Function from a row to the remark's text for it."""
    hint: str
    refused: bool = False
    """True if these rows prevent the trace from loading."""


def row_problems(rows: Submissions) -> list[str]:
    """Return one line for each row and finding that prevents the row from becoming a job."""
    return [
        f"{rows.where(row)}: {finding.fact(row)}; {finding.hint}"
        for finding in refusals(rows)
        for row in finding.rows
    ]


def by_line(problems: Iterable[str], path: str) -> list[str]:
    """Return the problems of a file without repetitions; those with a line number last, by line."""

    def line(problem: str) -> int:
        place = problem.removeprefix(f"{path}:")
        number = place.partition(":")[0]
        return int(number) if place != problem and number.isdigit() else -1

    return sorted(dict.fromkeys(problems), key=line)


def refusals(rows: Submissions) -> list[Finding]:
    """Return the findings that prevent a row from becoming a job."""
    found: list[Finding] = []
    told: set[int] = set()  # batch and work may follow from slots and duration
    for name, values, hint in (
        ("requested_slots", rows.requested_slots, "a job needs at least 1 slot"),
        ("global_batch", rows.global_batch, "a batch has at least 1 sample"),
        ("duration_s", rows.duration_s, "leave out jobs that never ran, or correct the row"),
        ("work_samples", rows.work_samples, "a job needs work; leave it out or correct the row"),
    ):
        bad = [row for row in np.flatnonzero(values <= 0).tolist() if row not in told]
        told.update(bad)
        found.append(_not_positive(rows, name, bad, hint))
    if rows.min_slots is not None or rows.max_slots is not None:
        found.append(_slot_ranges(rows))
    if rows.logical_workers is not None:
        workers = rows.logical_workers
        bad = np.flatnonzero(workers < 1).tolist()
        hint = "a job has 1 or more; leave it out or correct the row"
        found.append(_not_positive(rows, "logical_workers", bad, hint))
    if rows.impossible_deadlines == "refuse":
        found.append(
            Finding(
                "deadlines not after submission",
                impossible(rows).tolist(),
                lambda row: (
                    f"{rows.said('deadline_s', row, '')} is not after"
                    f" {rows.said('arrival_s', row, '')}"
                ),
                "correct the row, or set reader.impossible_deadlines to drop_deadline or drop_job",
            )
        )
    if rows.job_ids is not None:
        names = rows.job_ids
        first: dict[str, int] = {}
        again = [row for row, name in enumerate(names) if first.setdefault(name, row) != row]
        empty = [row for row, name in enumerate(names) if not name]
        found.append(
            Finding(
                "repeated job ids",
                [row for row in again if names[row]],
                lambda row: (
                    f"{rows.column('job_id')} {names[row]!r} is also at"
                    f" {rows.where(first[names[row]])}"
                ),
                "give every job a different id, or leave such rows out with drop_where, or leave "
                "job_id out",
            )
        )
        found.append(
            Finding(
                "empty job ids",
                empty,
                lambda _row: f"{rows.column('job_id')} is empty",
                "give every job an id, or leave the column out to have jobs numbered",
            )
        )
    return [replace(finding, refused=True) for finding in found if finding.rows]


def impossible(rows: Submissions) -> Ints:
    """Return the rows whose deadline is at or before their submission."""
    with np.errstate(invalid="ignore"):
        return np.flatnonzero(rows.deadline_s <= rows.arrival_s)


def _not_positive(rows: Submissions, name: str, bad: Sequence[int], hint: str) -> Finding:
    return Finding(f"{rows.column(name)} of 0 or less", bad, lambda row: rows.said(name, row), hint)


def _slot_ranges(rows: Submissions) -> Finding:
    low = np.ones(len(rows), np.int64) if rows.min_slots is None else rows.min_slots
    high = low if rows.max_slots is None else rows.max_slots
    names = rows.column("min_slots"), rows.column("max_slots")
    return Finding(
        "impossible slot ranges",
        np.flatnonzero((low < 1) | (high < low)).tolist(),
        lambda row: f"{names[0]} is {low[row]} and {names[1]} is {high[row]:.10g}",
        "the lower end must be at least 1, and the upper end not below it",
    )
