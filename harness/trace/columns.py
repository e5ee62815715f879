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

Fields: ``arrival slots duration start end workload batch work deadline best_effort job_id owner
priority elastic min_slots max_slots logical_workers``. A field has a column, or a constant, or is
left out:

- ``duration``: ``end`` less ``start``, or unknown;
- ``workload``: ``recorded``, a program that nothing is known of;
- ``batch``: ``slots``, which suits ``recorded``; give it for every real workload;
- ``work``: duration x slots, in slot-seconds;
- ``deadline``: none; ``best_effort`` (the deadline does not count): false;
- ``job_id``: jobs are numbered in the order of arrival;
- ``owner``: empty; ``priority``: 0; ``elastic``: true; ``min_slots``: 1; ``max_slots``: none;
- ``logical_workers``: as many as slots.

``docs/how-to-add-a-trace.md`` has every option with examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from harness.problems import suggest
from harness.trace.assemble import to_trace
from harness.trace.cells import Cells, Scalar
from harness.trace.column_checks import contradictions
from harness.trace.column_choice import chosen, extracted, recognised
from harness.trace.fractions import whole_slots
from harness.trace.job import DeadlineKind
from harness.trace.submissions import ImpossibleDeadlines, Submissions
from harness.trace.table import Floats, Table, read_table
from harness.trace.trace import Trace, TraceError

RECORDED = "recorded"
_JOB_FIELDS = {
    "arrival": "arrival_s",
    "slots": "requested_slots",
    "duration": "duration_s",
    "batch": "global_batch",
    "work": "work_samples",
    "deadline": "deadline_s",
    "end": "duration_s",
}


@dataclass(frozen=True, kw_only=True)
class ColumnsReader:
    """Reads any CSV, as its options say.

    Raises:
        ValueError: options contradict each other; all of it, one a line.
    """

    path: str = field(kw_only=False)
    """The file; ``.gz`` is fine."""
    columns: Mapping[str, str | Sequence[str]]
    """Field of a job to column of the file, or to the names that the column has in different
    files, of which each has one."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Field to a regular expression: what its one group matches in a cell is what counts."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit of ``arrival``, ``duration``, ``deadline``, ``start`` and ``end``: ``s`` (default),
    ``ms``, ``min``, ``h``, ``d`` or ``date`` (not for a duration)."""
    date_format: str | None = None
    """Of the dates, as for ``strptime``; None: ISO 8601."""
    constants: Mapping[str, Scalar | Mapping[str, Scalar]] = field(default_factory=dict)
    """Values of fields that have no column; a mapping gives one for each workload (as
    renamed)."""
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    """Values for empty cells."""
    workload_renames: Mapping[str, str] = field(default_factory=dict)
    """Name in the file to name of a workload here."""
    workloads: Sequence[str] | None = None
    """The workloads that are allowed (as renamed); None: all."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factor on ``slots``, ``batch`` or ``work``: 0.001 for thousandths of a device."""
    fractions: Literal["refuse", "round_up"] = "refuse"
    """What becomes of a job that asks for a part of a slot."""
    deadlines: Literal["absolute", "relative"] = "absolute"
    """Whether they are on the clock of ``arrival``, or count from arrival."""
    deadline_kind: DeadlineKind = DeadlineKind.HARD
    """What deadlines bind, ``hard`` or ``soft``."""
    impossible_deadlines: ImpossibleDeadlines = "refuse"
    """A deadline at or before its submission is refused (``refuse``), or the job loses it
    (``drop_deadline``), or the job is left out (``drop_job``)."""
    work: Literal["samples", "iterations", "epochs", "slot_seconds"] = "samples"
    """What the field ``work`` counts: ``samples``, ``iterations`` (x global batch), ``epochs``
    (x ``samples_per_epoch`` of the workload) or ``slot_seconds``."""
    samples_per_epoch: Mapping[str, int] = field(default_factory=dict)
    """For work in epochs, by workload."""
    batches: Literal["global", "per_slot"] = "global"
    """Whether ``batch`` is the global one, or each slot's (then x slots)."""
    keep_where: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    """Column to the values whose rows are kept; other rows are left out."""
    drop_where: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    """Column to the values whose rows are left out; ``""`` is an empty cell."""
    delimiter: str = ","
    """Between cells; ``"\\t"`` for tabs."""
    header: Sequence[str] | None = None
    """Names of the columns of a file that has no header line."""
    generated: Sequence[str] = ()
    """Fields of ``JobSpec`` that were made up, for the record; constants are added by
    themselves."""

    def __post_init__(self) -> None:
        if problems := contradictions(self):
            raise ValueError("\n".join(problems))

    def recognises(self, columns: Sequence[str]) -> bool:
        """Whether a file with these columns can be read with these options."""
        return recognised(self.columns, columns) and set(self._rules()) <= set(columns)

    def parse(self) -> Submissions:
        """The rows as they are; see ``harness.trace.submissions.Reader``."""
        table = read_table(Path(self.path), delimiter=self.delimiter, header=self.header)
        if missing := table.missing(self._rules()):
            raise TraceError(missing)
        names = chosen(table, self.columns)
        in_file = len(table)
        table = self._kept(table)
        notes = set()
        if len(table) < in_file:
            notes.add(f"{len(table)} of {in_file} rows, by keep_where and drop_where")
        table, names = extracted(table, names, self.patterns)
        cells = Cells(table, names, self.constants, self.defaults)
        cells.workload = workload = self._workload(cells)
        arrival_s, deadline_s = self._time(cells, "arrival"), self._time(cells, "deadline")
        if self.deadlines == "relative":
            deadline_s = deadline_s + arrival_s
        deadline_s[cells.truths("best_effort")] = np.nan
        duration_s = self._duration(cells)
        slots = self._slots(cells, notes)
        batch = cells.whole("batch", otherwise=slots, scale=self.scale.get("batch", 1.0))
        if self.batches == "per_slot" and cells.has("batch"):
            batch = batch * slots
        work = self._work_samples(cells, batch, slots, duration_s)
        rest = {
            "job_ids": cells.texts("job_id"),
            "owner": cells.texts("owner"),
            "priority": cells.whole_or_none("priority"),
            "min_slots": cells.whole_or_none("min_slots"),
            "max_slots": cells.whole_or_none("max_slots"),
            "logical_workers": cells.whole_or_none("logical_workers"),
        }
        flags = cells.flags("elastic")
        if cells.problems:
            raise TraceError(cells.by_line())
        return Submissions(
            path=table.path,
            lines=table.lines,
            arrival_s=arrival_s,
            requested_slots=slots.astype(np.int64),
            workload=workload,
            global_batch=batch.astype(np.int64),
            work_samples=work,
            work_in_slot_s=not cells.has("work"),
            duration_s=duration_s,
            wait_s=self._time(cells, "start") - arrival_s if cells.has("start") else None,
            deadline_s=deadline_s,
            elastic=flags,
            deadline_kind=self.deadline_kind,
            impossible_deadlines=self.impossible_deadlines,
            notes=frozenset(notes),
            names={_JOB_FIELDS.get(name, name): c for name, c in names.items()},
            **rest,  # type: ignore[arg-type]
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read."""
        return (Path(self.path),)

    def read(self) -> Trace:
        """The trace; see ``harness.trace.submissions.Reader``."""
        made_up = {*self.generated, *(_JOB_FIELDS.get(name, name) for name in self.constants)}
        name = Path(self.path).name.split(".")[0]
        return to_trace(self.parse(), name=name, generated=sorted(made_up))

    def _rules(self) -> list[str]:
        """Columns that rows are kept or left out by."""
        return [*self.keep_where, *self.drop_where]

    def _time(self, cells: Cells, name: str) -> Floats:
        return cells.times(name, self.units, self.date_format, optional=name != "arrival")

    def _duration(self, cells: Cells) -> Floats:
        if not cells.has("start"):
            return self._time(cells, "duration")
        return self._time(cells, "end") - self._time(cells, "start")

    def _slots(self, cells: Cells, notes: set[str]) -> Floats:
        scale = self.scale.get("slots", 1.0)
        if self.fractions == "refuse":
            return cells.whole("slots", scale=scale)
        asked = cells.numbers("slots", scale=scale)
        slots, parts = whole_slots(asked)
        if parts:
            notes.add(f"{parts} jobs ask for a part of a slot, rounded up")
        return slots

    def _kept(self, table: Table) -> Table:
        keep = np.ones(len(table), dtype=bool)
        for rules, kept in ((self.keep_where, True), (self.drop_where, False)):
            for column, values in rules.items():
                named = {str(value) for value in values}
                keep &= np.fromiter(((c in named) is kept for c in table.columns[column]), bool)
        if not keep.any():
            raise TraceError(
                [
                    f"{table.path}: keep_where and drop_where leave no row"
                    f" ({self.keep_where}, {self.drop_where}); correct their values"
                ]
            )
        return table if keep.all() else table.take(np.flatnonzero(keep))

    def _workload(self, cells: Cells) -> Sequence[str]:
        names = cells.texts("workload") or [RECORDED] * len(cells.table)
        renamed = [self.workload_renames.get(name, name) for name in names]
        for row, name in enumerate(renamed):
            if not name:
                cells.bad(row, "workload", "name one, or give it in defaults")
            elif self.workloads is not None and name not in self.workloads:
                way_out = f"{suggest(name, self.workloads)}; or rename it in workload_renames"
                cells.bad(row, "workload", way_out)
        return renamed

    def _work_samples(
        self, cells: Cells, batch: Floats, slots: Floats, duration_s: Floats
    ) -> Floats:
        if not cells.has("work"):
            for name in ("duration", "start", "end"):
                for row in cells.empty(name):
                    cells.bad(row, name, "give it, or a column for work")
            return duration_s * slots
        work = cells.numbers("work", scale=self.scale.get("work", 1.0))
        if self.work == "iterations":
            return work * batch
        if self.work == "epochs":
            sizes = np.full(len(work), np.nan)
            for row, name in enumerate(cells.workload):
                if name in self.samples_per_epoch:
                    sizes[row] = self.samples_per_epoch[name]
                else:
                    cells.bad(
                        row,
                        "workload",
                        f"has no samples_per_epoch; {suggest(name, self.samples_per_epoch)}",
                    )
            work = work * sizes
        return work
