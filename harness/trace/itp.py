"""The Microsoft ITP traces in ElasticFlow's format, in both published spellings.

The columns are ``job_id``, ``submission_time`` (or ``submit_time``), ``num_iteration`` (or
``iteration``), ``model_name``, ``deadline`` (or ``ddl``), ``batch_size``, ``num_gpu`` (or
``num_gpus``), ``duration`` and, in some files, ``best_effort``. Times are seconds on one clock, and
deadlines are absolute. The batch is the global one, so work is iterations x batch samples. A job
with ``best_effort`` 1 has no deadline.

Submission, duration and GPUs are recorded. Upstream generated the model, the batch, the iterations
(from duration and a measured throughput) and the deadline (0.5 to 1.5 durations after submission).
About half of the deadlines cannot be met at the requested GPUs.

Source: Gu et al., "ElasticFlow", ASPLOS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.contracts.job import DeadlineKind
from harness.errors import known
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.submissions import ImpossibleDeadlines, Submissions
from harness.trace.parsing.table import Table, read_table
from harness.trace.parsing.values import numbers

_SPELLINGS = {
    "job_id": ("job_id",),
    "arrival_s": ("submission_time", "submit_time"),
    "iterations": ("num_iteration", "iteration"),
    "workload": ("model_name",),
    "deadline_s": ("deadline", "ddl"),
    "global_batch": ("batch_size",),
    "requested_slots": ("num_gpu", "num_gpus"),
    "duration_s": ("duration",),
}
_BEST_EFFORT = "best_effort"
GENERATED = ("workload", "global_batch", "work_samples", "deadline_s")
"""Fields whose values the publishers of the files generated."""


class ItpReader:
    """Reader of ElasticFlow's format.

    Args:
        path: the file; ``.gz`` is fine.
        deadline_kind: kind of the deadlines, ``hard`` or ``soft``.
        impossible_deadlines: what happens to a deadline at or before its submission. It is refused
            (``refuse``), or the job loses it (``drop_deadline``), or the job is left out
            (``drop_job``). What is dropped is counted in the trace's history.
        elastic: whether a scheduler may give another number of slots than was asked for.
    """

    def __init__(
        self,
        path: str,
        *,
        deadline_kind: DeadlineKind = DeadlineKind.HARD,
        impossible_deadlines: ImpossibleDeadlines = "refuse",
        elastic: bool = True,
    ) -> None:
        if deadline_kind is DeadlineKind.NONE:
            raise ValueError("deadline_kind is 'none'; give hard or soft")
        self._path = Path(path)
        self._deadline_kind = deadline_kind
        self._impossible_deadlines: ImpossibleDeadlines = impossible_deadlines
        self._elastic = elastic

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns is of this format."""
        return all(set(spellings) & set(columns) for spellings in _SPELLINGS.values())

    def parse(self) -> Submissions:
        """Return the rows as they are; see ``harness.trace.parsing.submissions.Reader``."""
        table = read_table(self._path)
        names = _names(table)
        problems: list[str] = []
        batch = numbers(table, names["global_batch"], problems, whole=True)
        iterations = numbers(table, names["iterations"], problems)
        slots = numbers(table, names["requested_slots"], problems, whole=True)
        arrival_s = numbers(table, names["arrival_s"], problems)
        duration_s = numbers(table, names["duration_s"], problems)
        deadline_s = numbers(table, names["deadline_s"], problems, optional=True)
        if _BEST_EFFORT in table.columns:
            flags = numbers(table, _BEST_EFFORT, problems, whole=True)
            deadline_s[flags == 1] = np.nan
        if problems:
            raise TraceError(problems)
        return Submissions(
            path=table.path,
            lines=table.lines,
            arrival_s=arrival_s,
            requested_slots=slots.astype(np.int64),
            workload=table.columns[names["workload"]],
            global_batch=batch.astype(np.int64),
            work_samples=iterations * batch,
            duration_s=duration_s,
            deadline_s=deadline_s,
            job_ids=table.columns[names["job_id"]],
            elastic=self._elastic,
            deadline_kind=self._deadline_kind,
            impossible_deadlines=self._impossible_deadlines,
            names={**names, "work_samples": f"{names['iterations']} x {names['global_batch']}"},
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the reader reads."""
        return (self._path,)

    def read(self) -> Trace:
        """Return the trace; see ``harness.trace.parsing.submissions.Reader``."""
        return to_trace(self.parse(), name=self._path.name.split(".")[0], generated=GENERATED)


def _names(table: Table) -> dict[str, str]:
    """Return the column name of every field in this file.

    Raises:
        TraceError: for every field whose column is absent or present in several spellings.
    """
    names: dict[str, str] = {}
    problems: list[str] = []
    for field, spellings in _SPELLINGS.items():
        found = [name for name in spellings if name in table.columns]
        if len(found) == 1:
            names[field] = found[0]
        elif found:
            problems.append(f"{table.path}:1: both {' and '.join(found)} are there; keep one")
        else:
            wanted = " or ".join(spellings)
            problems.append(
                f"{table.path}:1: there is no column {wanted};"
                f" {known(table.columns)}. Rename one, or describe the file in a YAML"
                " (docs/how-to/add-a-trace.md)"
            )
    if problems:
        raise TraceError(problems)
    return names
