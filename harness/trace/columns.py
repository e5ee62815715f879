"""Reader of a user's own CSV, described by a YAML of column names, units and rules.

No code is needed. This is a complete YAML of a trace::

    name: lab_week
    source: our own logs, week 12
    licence: internal
    reader:
      _target_: harness.trace.columns.ColumnsReader
      path: lab_week.csv            # next to this YAML
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
priority elastic min_slots max_slots logical_workers``. A field has a column or a constant. Without
either, its default is:

- ``duration``: ``end`` less ``start``, or unknown;
- ``workload``: ``recorded``, the name for an unknown program;
- ``batch``: ``slots``, which suits ``recorded``; give it for every real workload;
- ``work``: duration x slots, in slot-seconds;
- ``deadline``: none; ``best_effort`` (the deadline does not count): false;
- ``job_id``: jobs are numbered in the order of arrival;
- ``owner``: empty; ``priority``: 0; ``elastic``: true; ``min_slots``: 1; ``max_slots``: none;
- ``logical_workers``: as many as slots.

``docs/how-to/add-a-trace.md`` has every option with examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from harness.errors import suggest
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.cells import Cells
from harness.trace.parsing.column_checks import contradictions
from harness.trace.parsing.column_choice import chosen, extracted, recognised
from harness.trace.parsing.column_options import ColumnOptions
from harness.trace.parsing.findings import by_line, row_problems
from harness.trace.parsing.fractions import whole_slots
from harness.trace.parsing.row_choice import kept
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Floats, Ints, read_table
from harness.trace.parsing.values import Calendar

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
class ColumnsReader(ColumnOptions):
    """Reader of any CSV, described by its options.

    Raises:
        ValueError: options contradict each other; one line for each contradiction.
    """

    def __post_init__(self) -> None:
        if problems := contradictions(self):
            raise ValueError("\n".join(problems))

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns can be read with these options."""
        return recognised(self.columns, columns) and set(self._rules()) <= set(columns)

    def parse(self) -> Submissions:
        """Return the rows as they are; see ``harness.trace.parsing.submissions.Reader``."""
        problems: list[str] = []
        table = read_table(
            Path(self.path),
            delimiter=self.delimiter,
            header=self.header,
            ragged=problems,
            quotes=self.delimiter != "|" if self.quotes is None else self.quotes,
        )
        names = chosen(table, self.columns, problems)
        problems += table.missing(self._rules())
        if len(names) < len(self.columns) or table.missing(self._rules()):
            raise TraceError(by_line(problems, table.path))
        in_file = len(table)
        table = kept(
            table,
            keep_where=self.keep_where,
            drop_where=self.drop_where,
            keep_matching=self.keep_matching,
            drop_matching=self.drop_matching,
            no_value=self.no_value,
        )
        notes = set()
        if len(table) < in_file:
            notes.add(f"{len(table)} of {in_file} rows, by {self._named_rules()}")
        table, names = extracted(table, names, self.patterns, self.no_value, problems)
        told = tuple(problems)
        cells = Cells(table, names, self.constants, self.defaults, self.no_value)
        rows = self._submissions(cells, names, notes)
        cells.check_zones()
        problems += [problem for problem in cells.problems if not _is_told(problem, told)]
        if problems:
            raise TraceError(by_line([*problems, *row_problems(rows)], table.path))
        return rows

    def _submissions(self, cells: Cells, names: Mapping[str, str], notes: set[str]) -> Submissions:
        """Return the jobs of all rows; wrong cells get values that cause no further problems."""
        cells.workload = workload = self._workload(cells)
        arrival_s, deadline_s = self._time(cells, "arrival"), self._time(cells, "deadline")
        if self.deadlines == "relative":
            deadline_s = deadline_s + arrival_s
        deadline_s[cells.truths("best_effort")] = np.nan
        duration_s = self._duration(cells)
        slots = self._slots(cells, notes)
        batch = self._batch(cells, slots)
        work = self._work_samples(cells, batch, slots, duration_s)
        shown = {_JOB_FIELDS.get(name, name): cells.shown(name) for name in names}
        if "start" in names:
            shown["duration_s"] = cells.shown("start", "end")
        if "deadline" in names and self.deadlines == "relative":
            ((column, texts),) = shown["deadline_s"].items()
            shown["deadline_s"] = {f"{column} (from arrival)": texts}
        return Submissions(
            path=cells.table.path,
            lines=cells.table.lines,
            arrival_s=arrival_s,
            requested_slots=_whole(slots),
            workload=workload,
            global_batch=_whole(batch),
            work_samples=work,
            work_in_slot_s=not cells.has("work"),
            duration_s=duration_s,
            wait_s=self._time(cells, "start") - arrival_s if cells.has("start") else None,
            deadline_s=deadline_s,
            job_ids=_numbered(cells.texts("job_id"), arrival_s),
            owner=cells.texts("owner"),
            priority=_whole_or_none(cells.whole_or_none("priority"), 0),
            elastic=cells.flags("elastic"),
            min_slots=_whole_or_none(cells.whole_or_none("min_slots"), 1),
            max_slots=cells.whole_or_none("max_slots"),
            logical_workers=cells.whole_or_none("logical_workers"),
            deadline_kind=self.deadline_kind,
            impossible_deadlines=self.impossible_deadlines,
            notes=frozenset(notes),
            names={_JOB_FIELDS.get(name, name): c for name, c in names.items()},
            shown=shown,
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the reader reads."""
        return (Path(self.path),)

    def read(self) -> Trace:
        """Return the trace; see ``harness.trace.parsing.submissions.Reader``."""
        made_up = {*self.generated, *(_JOB_FIELDS.get(name, name) for name in self.constants)}
        name = Path(self.path).name.split(".")[0]
        return to_trace(self.parse(), name=name, generated=sorted(made_up))

    def _rules(self) -> list[str]:
        """Return the columns used by the rules that keep or leave out rows."""
        rules = (self.keep_where, self.drop_where, self.keep_matching, self.drop_matching)
        return list(dict.fromkeys(column for rule in rules for column in rule))

    def _named_rules(self) -> str:
        """Return the names of the rules that leave rows out, for the trace's provenance."""
        if not (self.keep_matching or self.drop_matching):
            return "keep_where and drop_where"
        rules = ("keep_where", "drop_where", "keep_matching", "drop_matching")
        return ", ".join(rule for rule in rules if getattr(self, rule))

    def _time(self, cells: Cells, name: str) -> Floats:
        zone = None if self.time_zone is None else ZoneInfo(self.time_zone)
        calendar = Calendar(self.date_format, zone, self.repeated_hour)
        return cells.times(name, self.units, calendar, optional=name != "arrival")

    def _duration(self, cells: Cells) -> Floats:
        if not cells.has("start"):
            return self._time(cells, "duration")
        return self._time(cells, "end") - self._time(cells, "start")

    def _batch(self, cells: Cells, slots: Floats) -> Floats:
        if not cells.has("batch"):
            return slots
        batch = cells.whole("batch", optional=True, scale=self.scale.get("batch", 1.0))
        if self.batches == "per_slot":
            batch = batch * slots
        for row in cells.empty("batch"):
            if cells.workload[row] == RECORDED:
                batch[row] = slots[row]
            else:
                hint = f"give the batch of {cells.workload[row]!r}, or set defaults.batch"
                cells.bad(row, "batch", hint)
        return batch

    def _slots(self, cells: Cells, notes: set[str]) -> Floats:
        scale = self.scale.get("slots", 1.0)
        if self.fractions == "refuse":
            return cells.whole("slots", scale=scale)
        asked = cells.numbers("slots", scale=scale)
        slots, parts = whole_slots(asked)
        if parts:
            notes.add(f"{parts} jobs ask for a part of a slot, rounded up")
        return slots

    def _workload(self, cells: Cells) -> Sequence[str]:
        names = cells.texts("workload")
        if names is None:
            names = [RECORDED] * len(cells.table)
        renamed = [self.workload_renames.get(name, name) for name in names]
        for row, name in enumerate(renamed):
            if not name and self.workloads is None and not cells.has("work"):
                renamed[row] = RECORDED
            elif not name:
                cells.bad(row, "workload", "name one, or give it in defaults")
            elif self.workloads is not None and name not in self.workloads:
                hint = f"{suggest(name, self.workloads)}; or rename it in workload_renames"
                cells.bad(row, "workload", hint)
        return renamed

    def _work_samples(
        self, cells: Cells, batch: Floats, slots: Floats, duration_s: Floats
    ) -> Floats:
        if not cells.has("work"):
            for name in ("duration", "start", "end"):
                for row in cells.empty(name):
                    cells.bad(row, name, "give it, or a column for work")
            return duration_s * slots
        work = cells.numbers("work", optional=True, scale=self.scale.get("work", 1.0))
        if self.work == "iterations":
            work = work * batch
        if self.work == "epochs":
            work = work * self._sizes(cells)
        for row in cells.empty("work"):
            if cells.workload[row] == RECORDED and not np.isnan(duration_s[row]):
                work[row] = duration_s[row] * slots[row]
            else:
                hint = "give it; only with the program 'recorded' and a duration it may be empty"
                cells.bad(row, "work", hint)
        return work

    def _sizes(self, cells: Cells) -> Floats:
        """Return the samples in one epoch of every row's workload."""
        sizes = np.full(len(cells.table), np.nan)
        for row, name in enumerate(cells.workload):
            if name in self.samples_per_epoch:
                sizes[row] = self.samples_per_epoch[name]
            elif name:
                hint = f"has no samples_per_epoch; {suggest(name, self.samples_per_epoch)}"
                cells.bad(row, "workload", hint)
        return sizes


def _whole(values: Floats, otherwise: int = 1) -> Ints:
    """Return whole numbers, with ``otherwise`` in place of NaN."""
    return np.where(np.isnan(values), otherwise, values).astype(np.int64)


def _whole_or_none(values: Floats | None, otherwise: int) -> Ints | None:
    return None if values is None else _whole(values, otherwise)


def _numbered(names: Sequence[str] | None, arrival_s: Floats) -> Sequence[str] | None:
    """Return job ids; a job without an id gets its number in order of arrival."""
    if names is None or all(names):
        return names
    width = len(str(len(names) - 1))
    places = np.empty(len(names), dtype=np.int64)
    places[np.argsort(arrival_s, kind="stable")] = np.arange(len(names))
    return [name or f"{place:0{width}d}" for name, place in zip(names, places, strict=True)]


def _is_told(problem: str, told: Sequence[str]) -> bool:
    """Return whether a problem only repeats a reported one: a pattern that found nothing."""
    place, _, rest = problem.partition(": ")
    column = rest.partition(" (")[0]
    return any(earlier.startswith(f"{place}: {column} is ") for earlier in told)
