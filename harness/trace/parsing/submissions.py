"""Job submissions as columns: every reader's output, before it is checked.

The types are correct here, but values may still be impossible. So ``lint`` can report the mistakes
of a file that cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from harness.contracts.job import DeadlineKind
from harness.trace.model.trace import Trace
from harness.trace.parsing.table import Floats, Ints

ImpossibleDeadlines = Literal["refuse", "drop_deadline", "drop_job"]
"""Treatment of a deadline at or before its own submission."""


@dataclass(frozen=True, eq=False)
class Submissions:
    """Columns of equal length, in the order of the file; unknown numbers are NaN."""

    path: str
    lines: Ints
    arrival_s: Floats
    """Submission times on the clock of the file, seconds."""
    requested_slots: Ints
    workload: Sequence[str]
    global_batch: Ints
    work_samples: Floats
    duration_s: Floats
    deadline_s: Floats
    """Absolute deadlines on the clock of the file, seconds; NaN: none."""
    job_ids: Sequence[str] | None = None
    """Ids from the file; None: the file has none, and jobs are numbered in order of arrival."""
    owner: Sequence[str] | None = None
    priority: Ints | None = None
    elastic: Sequence[bool] | bool = True
    min_slots: Ints | None = None
    max_slots: Floats | None = None
    """Largest number of slots of each job; NaN: no limit."""
    logical_workers: Floats | None = None
    """Logical workers of each job; NaN: as many as its slots."""
    deadline_kind: DeadlineKind = DeadlineKind.HARD
    impossible_deadlines: ImpossibleDeadlines = "refuse"
    names: Mapping[str, str] = field(default_factory=dict)
    """Column of the file for each field, for messages."""
    shown: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """Texts of the file behind each field, by field and column, for messages."""
    places: Sequence[str] | None = None
    """Place of each row in messages; None: path and line."""

    wait_s: Floats | None = None
    """Recorded start minus arrival; NaN: not recorded. None: the file has no starts."""
    work_in_slot_s: bool = False
    """True if work is counted in slot-seconds, because the file does not state the work."""
    notes: frozenset[str] = frozenset()
    """Rows that the reader's options left out, and roundings, for the trace's history."""

    def __len__(self) -> int:
        return len(self.arrival_s)

    def where(self, row: int) -> str:
        """Return the place of a row, as messages show it."""
        return self.places[row] if self.places else f"{self.path}:{self.lines[row]}"

    def column(self, name: str) -> str:
        """Return the file's name for a field of ``JobSpec``."""
        return self.names.get(name, name)

    def said(self, name: str, row: int, verb: str = "is ") -> str:
        """Return ``column is text`` with the file's text of a row's field, or with the field's
        value.

        Args:
            name: field of this class.
            row: number of the row.
            verb: word between column and text.
        """
        if texts := self.shown.get(name):
            return " and ".join(f"{column} {verb}{cells[row]}" for column, cells in texts.items())
        return f"{self.column(name)} {verb}{getattr(self, name)[row]:.10g}"

    def take(self, rows: Ints) -> Submissions:
        """Return only the given rows, in the given order."""
        picked: dict[str, object] = {
            "shown": {
                name: {column: [cells[row] for row in rows] for column, cells in texts.items()}
                for name, texts in self.shown.items()
            }
        }
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                picked[name] = value[rows]
            elif isinstance(value, list | tuple):
                picked[name] = [value[row] for row in rows.tolist()]
        return replace(self, **picked)  # type: ignore[arg-type]


class Reader(Protocol):
    """Reader of a published format (or a user's own), opened on one file.

    A part of a trace that reads files, reader or transform, may have a property ``files`` with
    their paths. With it, records can distinguish an edited file from the draws of another seed.
    """

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns is of this format."""
        ...

    def parse(self) -> Submissions:
        """Return the rows of the file as they are.

        Raises:
            TraceError: the file cannot be read, lacks a column, or has cells of the wrong type; all
                mistakes, with path and line.
        """
        ...

    def read(self) -> Trace:
        """Return the trace: sorted, the first submission at 0.

        Raises:
            TraceError: as ``parse``, and for every row that cannot become a job.
        """
        ...
