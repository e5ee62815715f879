"""A CSV of the user's own, described by a YAML of column names, units and rules.

No code is needed. A whole trace file for the frame of this reader::

    name: lab_week
    source: our own logs, week 12
    licence: internal
    reader:
      _target_: harness.trace.columns.ColumnsReader
      path: lab_week.csv            # beside this YAML
      columns:                      # field of a job: column of the file
        arrival: submitted          # the only two that must be here or
        slots: gpus                 # in `constants`
        duration: minutes
        workload: model
      units: {arrival: date, duration: min}
      constants: {batch: {resnet50: 256, bert: 64}}
      defaults: {owner: unknown}
      workload_renames: {ResNet-50: resnet50, bert-large: bert}
      work: slot_seconds

Fields: ``arrival slots duration workload batch work deadline job_id owner priority elastic
min_slots max_slots``. A field has a column, or a constant, or is left out:

- ``duration``: unknown; ``workload``: ``recorded``, a program that nothing is known of;
- ``batch``: ``slots``, which suits ``recorded``; give it for every real workload;
- ``work``: duration x slots, in slot-seconds;
- ``deadline``: none; ``job_id``: jobs are numbered in the order of arrival;
- ``owner``: empty; ``priority``: 0; ``elastic``: true; ``min_slots``: 1; ``max_slots``: none.

``docs/how-to-add-a-trace.md`` has every option with examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from harness.problems import suggest
from harness.trace.assemble import to_trace
from harness.trace.cells import FIELDS, UNITS, Cells, Scalar
from harness.trace.job import DeadlineKind
from harness.trace.submissions import ImpossibleDeadlines, Submissions
from harness.trace.table import Floats, Table, read_table
from harness.trace.trace import Trace, TraceError

RECORDED = "recorded"
_TIMES = ("arrival", "duration", "deadline")
_REQUIRED = ("arrival", "slots")
_JOB_FIELDS = {
    "arrival": "arrival_s",
    "slots": "requested_slots",
    "duration": "duration_s",
    "batch": "global_batch",
    "work": "work_samples",
    "deadline": "deadline_s",
}


class ColumnsReader:
    """Reads any CSV, as its options say.

    Args:
        path: the file; ``.gz`` is fine.
        columns: field of a job to column of the file.
        units: unit of ``arrival``, ``duration`` and ``deadline``: ``s`` (default), ``ms``,
            ``min``, ``h``, ``d`` or ``date`` (not for a duration).
        date_format: of the dates, as for ``strptime``; None: ISO 8601.
        constants: values of fields that have no column; a mapping gives one value for each
            workload (as renamed).
        defaults: values for empty cells.
        workload_renames: name in the file to name of a workload here.
        workloads: the workloads that are allowed (as renamed); None: all.
        deadlines: ``absolute`` (on the clock of ``arrival``) or ``relative`` to arrival.
        deadline_kind: what deadlines bind, ``hard`` or ``soft``.
        impossible_deadlines: a deadline at or before its submission is refused
            (``refuse``), or the job loses it (``drop_deadline``), or the job is left out.
        work: what ``work`` counts: ``samples``, ``iterations`` (x global batch), ``epochs``
            (x ``samples_per_epoch`` of the workload) or ``slot_seconds``.
        samples_per_epoch: for work in epochs, by workload.
        batches: whether ``batch`` is ``global`` or ``per_slot`` (then x slots).
        keep_where: column to the values whose rows are kept; other rows are left out.
        drop_where: column to the values whose rows are left out; ``""`` is an empty cell.
        delimiter: between cells; ``"\\t"`` for tabs.
        header: names of the columns of a file that has no header line.
        generated: fields of ``JobSpec`` that were made up, for the record; constants are
            added by themselves.

    Raises:
        ValueError: options contradict each other; all of it, one a line.
    """

    def __init__(
        self,
        path: str,
        *,
        columns: Mapping[str, str],
        units: Mapping[str, str] | None = None,
        date_format: str | None = None,
        constants: Mapping[str, Scalar | Mapping[str, Scalar]] | None = None,
        defaults: Mapping[str, Scalar] | None = None,
        workload_renames: Mapping[str, str] | None = None,
        workloads: Sequence[str] | None = None,
        deadlines: Literal["absolute", "relative"] = "absolute",
        deadline_kind: DeadlineKind = DeadlineKind.HARD,
        impossible_deadlines: ImpossibleDeadlines = "refuse",
        work: Literal["samples", "iterations", "epochs", "slot_seconds"] = "samples",
        samples_per_epoch: Mapping[str, int] | None = None,
        batches: Literal["global", "per_slot"] = "global",
        keep_where: Mapping[str, Sequence[Scalar]] | None = None,
        drop_where: Mapping[str, Sequence[Scalar]] | None = None,
        delimiter: str = ",",
        header: Sequence[str] | None = None,
        generated: Sequence[str] = (),
    ) -> None:
        self._path = Path(path)
        self._columns = dict(columns)
        self._units = dict(units or {})
        self._date_format = date_format
        self._constants = dict(constants or {})
        self._defaults = dict(defaults or {})
        self._renames = dict(workload_renames or {})
        self._workloads = workloads
        self._deadlines = deadlines
        self._deadline_kind = deadline_kind
        self._impossible_deadlines: ImpossibleDeadlines = impossible_deadlines
        self._work = work
        self._samples_per_epoch = dict(samples_per_epoch or {})
        self._batches = batches
        self._keep_where = dict(keep_where or {})
        self._drop_where = dict(drop_where or {})
        self._delimiter = delimiter
        self._header = header
        self._generated = {*generated, *(_JOB_FIELDS.get(name, name) for name in self._constants)}
        if problems := self._contradictions():
            raise ValueError("\n".join(problems))

    def _contradictions(self) -> list[str]:
        given = {**self._columns, **self._constants}
        problems = [
            f"unknown field {name!r} in {option}; {suggest(name, allowed)}"
            for option, names, allowed in (
                ("columns", self._columns, FIELDS),
                ("constants", self._constants, FIELDS),
                ("defaults", self._defaults, FIELDS),
                ("units", self._units, _TIMES),
            )
            for name in names
            if name not in allowed
        ]
        problems += [
            f"unknown unit {unit!r} of {name}; {suggest(unit, UNITS)}"
            for name, unit in self._units.items()
            if unit not in UNITS
        ]
        problems += [
            f"field {name!r} has neither a column nor a constant; name its column in columns"
            for name in _REQUIRED
            if name not in given
        ]
        problems += [
            f"field {name!r} has a column and a constant; keep one (defaults fill empty cells)"
            for name in self._columns
            if name in self._constants
        ]
        problems += [
            f"field {name!r} has a default but no column; put the value into constants"
            for name in self._defaults
            if name not in self._columns
        ]
        problems += [
            f"constants.{name} is a mapping; give one value for all jobs"
            for name in ("workload", "job_id")
            if isinstance(self._constants.get(name), Mapping)
        ]
        if self._units.get("duration") == "date":
            problems.append("the unit of duration is 'date'; give s, ms, min, h or d")
        if self._deadlines == "relative" and self._units.get("deadline") == "date":
            problems.append("deadline is a date, so it is absolute; set deadlines: absolute")
        if "work" in given and self._work == "slot_seconds":
            problems.append(
                "work in slot_seconds comes from duration x slots; leave out the field work"
            )
        if self._work in ("iterations", "epochs") and "work" not in given:
            problems.append(f"work counts {self._work} but has no column; name it in columns")
        if self._work == "epochs" and not self._samples_per_epoch:
            problems.append("work counts epochs; give samples_per_epoch, a size for each workload")
        if "work" not in given and "duration" not in given:
            problems.append("neither work nor duration is known; name the column of one of them")
        if self._deadline_kind is DeadlineKind.NONE:
            problems.append("deadline_kind is 'none'; leave out the field deadline instead")
        if len(self._delimiter) != 1:
            problems.append(f"delimiter is {self._delimiter!r}; give one character")
        return problems

    def recognises(self, columns: Sequence[str]) -> bool:
        """Whether a file with these columns can be read with these options."""
        return set(self._read_columns()) <= set(columns)

    def parse(self) -> Submissions:
        """The rows as they are; see ``harness.trace.submissions.Reader``."""
        table = read_table(self._path, delimiter=self._delimiter, header=self._header)
        if missing := table.missing(self._read_columns()):
            raise TraceError(missing)
        in_file = len(table)
        table = self._kept(table)
        notes = frozenset(
            {f"{len(table)} of {in_file} rows, by keep_where and drop_where"}
            if len(table) < in_file
            else ()
        )
        cells = Cells(table, self._columns, self._constants, self._defaults)
        workload = self._workload(cells)
        cells.workload = workload
        arrival_s = cells.times("arrival", self._units, self._date_format)
        duration_s = cells.times("duration", self._units, self._date_format, optional=True)
        deadline_s = cells.times("deadline", self._units, self._date_format, optional=True)
        if self._deadlines == "relative":
            deadline_s = deadline_s + arrival_s
        slots = cells.whole("slots")
        batch = cells.whole("batch", otherwise=slots)
        if self._batches == "per_slot" and cells.has("batch"):
            batch = batch * slots
        work = self._work_samples(cells, batch, slots, duration_s)
        rest = {
            "job_ids": cells.texts("job_id"),
            "owner": cells.texts("owner"),
            "priority": cells.whole_or_none("priority"),
            "min_slots": cells.whole_or_none("min_slots"),
            "max_slots": cells.whole_or_none("max_slots"),
        }
        flags = cells.flags("elastic")
        if cells.problems:
            raise TraceError(cells.problems)
        return Submissions(
            path=table.path,
            lines=table.lines,
            arrival_s=arrival_s,
            requested_slots=slots.astype(np.int64),
            workload=workload,
            global_batch=batch.astype(np.int64),
            work_samples=work,
            duration_s=duration_s,
            deadline_s=deadline_s,
            elastic=flags,
            deadline_kind=self._deadline_kind,
            impossible_deadlines=self._impossible_deadlines,
            notes=notes,
            names={_JOB_FIELDS.get(name, name): c for name, c in self._columns.items()},
            **rest,  # type: ignore[arg-type]
        )

    def read(self) -> Trace:
        """The trace; see ``harness.trace.submissions.Reader``."""
        return to_trace(
            self.parse(), name=self._path.name.split(".")[0], generated=sorted(self._generated)
        )

    def _read_columns(self) -> list[str]:
        return [*self._columns.values(), *self._keep_where, *self._drop_where]

    def _kept(self, table: Table) -> Table:
        keep = np.ones(len(table), dtype=bool)
        for rules, kept in ((self._keep_where, True), (self._drop_where, False)):
            for column, values in rules.items():
                named = {str(value) for value in values}
                keep &= np.fromiter(((c in named) is kept for c in table.columns[column]), bool)
        if not keep.any():
            raise TraceError(
                [
                    f"{table.path}: keep_where and drop_where leave no row"
                    f" ({self._keep_where}, {self._drop_where}); correct their values"
                ]
            )
        return table if keep.all() else table.take(np.flatnonzero(keep))

    def _workload(self, cells: Cells) -> Sequence[str]:
        names = cells.texts("workload") or [RECORDED] * len(cells.table)
        renamed = [self._renames.get(name, name) for name in names]
        for row, name in enumerate(renamed):
            if not name:
                cells.bad(row, "workload", "name one, or give it in defaults")
            elif self._workloads is not None and name not in self._workloads:
                way_out = f"{suggest(name, self._workloads)}; or rename it in workload_renames"
                cells.bad(row, "workload", way_out)
        return renamed

    def _work_samples(
        self, cells: Cells, batch: Floats, slots: Floats, duration_s: Floats
    ) -> Floats:
        if not cells.has("work"):
            for row in cells.empty("duration"):
                cells.bad(row, "duration", "give it, or a column for work")
            return duration_s * slots
        work = cells.numbers("work")
        if self._work == "iterations":
            return work * batch
        if self._work == "epochs":
            sizes = np.full(len(work), np.nan)
            for row, name in enumerate(cells.workload):
                if name in self._samples_per_epoch:
                    sizes[row] = self._samples_per_epoch[name]
                else:
                    cells.bad(
                        row,
                        "workload",
                        f"has no samples_per_epoch; {suggest(name, self._samples_per_epoch)}",
                    )
            work = work * sizes
        return work
