"""Job submissions as columns: what every reader makes of its file, before it is judged.

Types are right here (numbers are numbers) but values may still be impossible, so that
``lint`` can say what is wrong with a file that cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from harness.trace.job import DeadlineKind, JobSpec
from harness.trace.table import Floats, Ints
from harness.trace.trace import Trace, TraceError

ImpossibleDeadlines = Literal["refuse", "drop_deadline", "drop_job"]
"""What to do with a deadline at or before its own submission."""


@dataclass(frozen=True, eq=False)
class Submissions:
    """Columns of equal length, in the order of the file; unknown numbers are NaN."""

    path: str
    lines: Ints
    arrival_s: Floats
    """On the clock of the file."""
    requested_slots: Ints
    workload: Sequence[str]
    global_batch: Ints
    work_samples: Floats
    duration_s: Floats
    deadline_s: Floats
    """Absolute, on the clock of the file; NaN: none."""
    job_ids: Sequence[str] | None = None
    """None: the file has none, and jobs are numbered in the order of arrival."""
    owner: Sequence[str] | None = None
    priority: Ints | None = None
    elastic: Sequence[bool] | bool = True
    min_slots: Ints | None = None
    max_slots: Ints | None = None
    deadline_kind: DeadlineKind = DeadlineKind.HARD
    impossible_deadlines: ImpossibleDeadlines = "refuse"
    names: Mapping[str, str] = field(default_factory=dict)
    """Column of the file that each field comes from, for messages."""
    places: Sequence[str] | None = None
    """Place of each row in messages; None: path and line."""

    def __len__(self) -> int:
        return len(self.arrival_s)

    def where(self, row: int) -> str:
        """The place of a row, as messages show it."""
        return self.places[row] if self.places else f"{self.path}:{self.lines[row]}"

    def column(self, name: str) -> str:
        """What the file calls a field of ``JobSpec``."""
        return self.names.get(name, name)

    def take(self, rows: Ints) -> Submissions:
        """Only the given rows, in the given order."""
        picked: dict[str, object] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                picked[name] = value[rows]
            elif isinstance(value, list | tuple):
                picked[name] = [value[row] for row in rows.tolist()]
        return replace(self, **picked)  # type: ignore[arg-type]


class Reader(Protocol):
    """One published format (or a user's own), opened on one file."""

    def recognises(self, columns: Sequence[str]) -> bool:
        """Whether a file with these columns is of this format."""
        ...

    def parse(self) -> Submissions:
        """The rows of the file as they are.

        Raises:
            TraceError: the file cannot be read, lacks a column, or has cells of the wrong
                type; all of them, with path and line.
        """
        ...

    def read(self) -> Trace:
        """The trace: sorted, the first submission at 0.

        Raises:
            TraceError: as ``parse``, and for every row that no job can be made of.
        """
        ...


@dataclass(frozen=True)
class Finding:
    """One kind of remark on some rows."""

    kind: str
    """A few words, such as ``repeated rows``."""
    rows: Sequence[int]
    fact: Callable[[int], str]
    """What there is to say of one row."""
    way_out: str
    refused: bool = False
    """Whether the rows stop the trace from loading."""


def refusals(rows: Submissions) -> list[Finding]:
    """Findings for which no job can be made of a row."""
    found = [
        _not_positive(rows, "requested_slots", rows.requested_slots, "a job needs at least 1 slot"),
        _not_positive(rows, "global_batch", rows.global_batch, "a batch has at least 1 sample"),
        _not_positive(
            rows, "duration_s", rows.duration_s, "leave out jobs that never ran, or mend the row"
        ),
        _not_positive(
            rows,
            "work_samples",
            rows.work_samples,
            "a job needs work; leave it out or mend the row",
        ),
    ]
    if rows.min_slots is not None or rows.max_slots is not None:
        found.append(_slot_ranges(rows))
    if rows.impossible_deadlines == "refuse":
        found.append(
            Finding(
                "deadlines not after submission",
                impossible(rows).tolist(),
                lambda row: (
                    f"{rows.column('deadline_s')} {rows.deadline_s[row]:.10g} is not after"
                    f" {rows.column('arrival_s')} {rows.arrival_s[row]:.10g}"
                ),
                "mend the row, or set reader.impossible_deadlines to drop_deadline or drop_job",
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
                "give every job a name of its own",
            )
        )
        found.append(
            Finding(
                "empty job ids",
                empty,
                lambda _row: f"{rows.column('job_id')} is empty",
                "give every job a name, or leave the column out to have jobs numbered",
            )
        )
    return [replace(finding, refused=True) for finding in found if finding.rows]


def impossible(rows: Submissions) -> Ints:
    """Rows whose deadline is at or before their submission."""
    with np.errstate(invalid="ignore"):
        return np.flatnonzero(rows.deadline_s <= rows.arrival_s)


def _not_positive(rows: Submissions, name: str, values: Floats | Ints, way_out: str) -> Finding:
    column = rows.column(name)
    return Finding(
        f"{column} of 0 or less",
        np.flatnonzero(values <= 0).tolist(),
        lambda row: f"{column} is {values[row]:.10g}",
        way_out,
    )


def _slot_ranges(rows: Submissions) -> Finding:
    low = np.ones(len(rows), np.int64) if rows.min_slots is None else rows.min_slots
    high = low if rows.max_slots is None else rows.max_slots
    names = rows.column("min_slots"), rows.column("max_slots")
    return Finding(
        "impossible slot ranges",
        np.flatnonzero((low < 1) | (high < low)).tolist(),
        lambda row: f"{names[0]} is {low[row]} and {names[1]} is {high[row]}",
        "a range starts at 1 or more and does not end before it starts",
    )


def to_trace(rows: Submissions, *, name: str, generated: Sequence[str] = ()) -> Trace:
    """The trace of a file's rows: sorted by arrival, then job id; the first arrives at 0.

    Rows that share an arrival and have no ids keep the order of the file. Deadlines move
    with the arrivals. What the reader's options drop is told in the history.

    Raises:
        TraceError: for every row that no job can be made of.
    """
    problems = [
        f"{rows.where(row)}: {finding.fact(row)}; {finding.way_out}"
        for finding in refusals(rows)
        for row in finding.rows
    ]
    if problems:
        raise TraceError(problems)
    history = []
    late = impossible(rows)
    if len(late) and rows.impossible_deadlines == "drop_job":
        kept = np.setdiff1d(np.arange(len(rows)), late)
        rows = rows.take(kept)
        history.append(f"{len(late)} jobs left out: deadline not after submission")
    elif len(late):
        deadlines = rows.deadline_s.copy()
        deadlines[late] = np.nan
        rows = replace(rows, deadline_s=deadlines)
        history.append(f"{len(late)} deadlines left out: not after submission")
    if len(rows) == 0:
        raise TraceError([f"{rows.path}: no job is left; {'; '.join(history)}"])
    rows = rows.take(np.argsort(rows.arrival_s, kind="stable"))
    first_s = float(rows.arrival_s[0])
    if first_s:
        history.append(f"first submission, at {first_s:.10g} s in the file, becomes 0")
    jobs = sorted(_jobs(rows, first_s), key=lambda job: job.order)
    return Trace(
        name=name, jobs=tuple(jobs), generated=frozenset(generated), history=tuple(history)
    )


def _jobs(rows: Submissions, first_s: float) -> Iterator[JobSpec]:
    """Jobs of sorted rows.

    Raises:
        TraceError: for every row whose fields contradict each other.
    """
    count = len(rows)
    width = len(str(count - 1))
    with_deadline = (~np.isnan(rows.deadline_s)).tolist()
    with_duration = (~np.isnan(rows.duration_s)).tolist()
    deadlines = (rows.deadline_s - first_s).tolist()
    durations = rows.duration_s.tolist()
    owners = rows.owner or [""] * count
    priorities = [0] * count if rows.priority is None else rows.priority.tolist()
    flags = [rows.elastic] * count if isinstance(rows.elastic, bool) else rows.elastic
    lowest = [1] * count if rows.min_slots is None else rows.min_slots.tolist()
    highest = [None] * count if rows.max_slots is None else rows.max_slots.tolist()
    problems: list[str] = []
    columns = zip(
        rows.job_ids or [f"{number:0{width}d}" for number in range(count)],
        (rows.arrival_s - first_s).tolist(),
        rows.workload,
        rows.requested_slots.tolist(),
        rows.work_samples.tolist(),
        rows.global_batch.tolist(),
        lowest,
        highest,
        [d if has else None for d, has in zip(deadlines, with_deadline, strict=True)],
        [rows.deadline_kind if has else DeadlineKind.NONE for has in with_deadline],
        flags,
        priorities,
        owners,
        [d if has else None for d, has in zip(durations, with_duration, strict=True)],
        strict=True,
    )
    for row, values in enumerate(columns):
        (job_id, arrival_s, workload, slots, work, batch, low, high, *rest) = values
        deadline_s, kind, elastic, priority, owner, duration_s = rest
        try:
            yield JobSpec(
                job_id=job_id,
                arrival_s=arrival_s,
                workload=workload,
                requested_slots=slots,
                work_samples=work,
                global_batch=batch,
                min_slots=low,
                max_slots=high,
                deadline_s=deadline_s,
                deadline_kind=kind,
                elastic=elastic,
                priority=priority,
                owner=owner,
                duration_s=duration_s,
            )
        except ValueError as error:
            problems.append(f"{rows.where(row)}: {error}")
    if problems:
        raise TraceError(problems)


def from_trace(trace: Trace) -> Submissions:
    """A loaded trace as columns again, so that ``lint`` and ``show`` can look at it."""
    nan = float("nan")
    jobs = trace.jobs
    return Submissions(
        path=trace.name,
        lines=np.arange(len(jobs)),
        arrival_s=np.array([job.arrival_s for job in jobs]),
        requested_slots=np.array([job.requested_slots for job in jobs]),
        workload=[job.workload for job in jobs],
        global_batch=np.array([job.global_batch for job in jobs]),
        work_samples=np.array([job.work_samples for job in jobs]),
        duration_s=np.array([nan if j.duration_s is None else j.duration_s for j in jobs]),
        deadline_s=np.array([nan if j.deadline_s is None else j.deadline_s for j in jobs]),
        job_ids=[job.job_id for job in jobs],
        owner=[job.owner for job in jobs],
        places=[f"job {job.job_id}" for job in jobs],
    )
