"""Reader of Alibaba's PAI cluster of 2020: jobs and tasks in two tables without headers.

``pai_job_table`` has job_name, inst_id, user, status, start_time and end_time. Its times are those
of submission and completion, in seconds on one clock. ``pai_task_table`` has job_name, task_name,
inst_num, status, start_time, end_time, plan_cpu, plan_mem, plan_gpu and gpu_type. Its times are the
task's own start and end. ``plan_gpu`` is in percent of a GPU for each instance of the task.

A job asks for the GPUs of all its tasks, and runs from the first task's start to the last task's
end. Only status ``Terminated`` means success; ``statuses`` can name others. Jobs of another status
are left out, and so are jobs without a GPU, a time or a task. The trace's history counts all of
them. A share of a GPU becomes slots as in ``harness.trace.openb``.

Source: Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale
Heterogeneous GPU Clusters", NSDI 2022.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.fractions import whole_slots
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Table, read_table
from harness.trace.parsing.values import numbers
from harness.trace.philly import RECORDED

JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK_COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
_PERCENT = 100.0


@dataclass(slots=True)
class _Span:
    """Devices and running time of one job, over the tasks added so far."""

    devices: float = 0.0
    first_start_s: float = math.inf
    last_end_s: float = -math.inf
    is_timed: bool = True

    def add(self, devices: float, start_s: float, end_s: float) -> None:
        """Add one task; NaN means that a time is absent."""
        self.devices += devices
        self.is_timed = self.is_timed and not math.isnan(start_s + end_s)
        self.first_start_s = min(self.first_start_s, start_s)
        self.last_end_s = max(self.last_end_s, end_s)


class PaiReader:
    """Reader of the job table and the task table.

    Args:
        path: the job table; ``.gz`` is fine.
        tasks: the task table, in the same folder.
        statuses: statuses of the jobs to keep.
        slots_per_device: equal parts of a device, each of which is one slot.
        elastic: whether a scheduler may give another number of slots than was asked for.

    Raises:
        ValueError: ``slots_per_device`` is below 1.
    """

    def __init__(
        self,
        path: str,
        *,
        tasks: str = "pai_task_table.csv",
        statuses: Sequence[str] = ("Terminated",),
        slots_per_device: int = 1,
        elastic: bool = False,
    ) -> None:
        if slots_per_device < 1:
            raise ValueError(f"slots_per_device is {slots_per_device}; it must be at least 1")
        self._path = Path(path)
        self._tasks = self._path.parent / tasks
        self._statuses = frozenset(statuses)
        self._slots_per_device = slots_per_device
        self._elastic = elastic

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return False, because the files have no header that could identify them."""
        return False

    def parse(self) -> Submissions:
        """Return the jobs as they are; see ``harness.trace.parsing.submissions.Reader``."""
        notes: list[str] = []
        jobs = read_table(self._path, header=JOB_COLUMNS)
        counts = [status in self._statuses for status in jobs.columns["status"]]
        jobs = _kept(jobs, counts, "of another status", notes)
        spans = _spans(read_table(self._tasks, header=TASK_COLUMNS))
        names = jobs.columns["job_name"]
        holds = [name in spans and spans[name].devices > 0 for name in names]
        jobs = _kept(jobs, holds, "without a GPU", notes)
        submitted = jobs.columns["start_time"]
        timed = [
            spans[name].is_timed and bool(cell)
            for name, cell in zip(jobs.columns["job_name"], submitted, strict=True)
        ]
        jobs = _kept(jobs, timed, "that lack a time", notes)
        problems: list[str] = []
        arrival_s = numbers(jobs, "start_time", problems)
        if problems:
            raise TraceError(problems)
        own = [spans[name] for name in jobs.columns["job_name"]]
        duration_s = np.array([span.last_end_s - span.first_start_s for span in own])
        devices = np.array([span.devices for span in own])
        slots, num_parts = whole_slots(devices * self._slots_per_device)
        if num_parts:
            notes.append(f"{num_parts} jobs ask for a part of a slot, rounded up")
        return Submissions(
            path=jobs.path,
            lines=jobs.lines,
            arrival_s=arrival_s,
            requested_slots=slots.astype(np.int64),
            workload=[RECORDED] * len(jobs),
            global_batch=slots.astype(np.int64),
            work_samples=duration_s * slots,
            work_in_slot_s=True,
            duration_s=duration_s,
            deadline_s=np.full(len(jobs), np.nan),
            wait_s=np.array([span.first_start_s for span in own]) - arrival_s,
            job_ids=jobs.columns["job_name"],
            owner=jobs.columns["user"],
            elastic=self._elastic,
            notes=frozenset(notes),
            names={
                "job_id": "job_name",
                "arrival_s": "start_time",
                "duration_s": "last end - first start of the tasks",
                "requested_slots": "inst_num x plan_gpu of the tasks",
                "work_samples": "duration x slots",
            },
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the reader reads."""
        return self._path, self._tasks

    def read(self) -> Trace:
        """Return the trace; see ``harness.trace.parsing.submissions.Reader``."""
        return to_trace(
            self.parse(), name=self._path.name.split(".")[0], generated=("global_batch",)
        )


def _spans(tasks: Table) -> dict[str, _Span]:
    """Return the devices that the tasks of each job ask for, and when the tasks ran.

    Raises:
        TraceError: for every cell that is no number.
    """
    problems: list[str] = []
    count = numbers(tasks, "inst_num", problems, optional=True)
    share = numbers(tasks, "plan_gpu", problems, optional=True)
    start_s = numbers(tasks, "start_time", problems, optional=True)
    end_s = numbers(tasks, "end_time", problems, optional=True)
    if problems:
        raise TraceError(problems)
    devices = np.nan_to_num(count) * np.nan_to_num(share) / _PERCENT
    spans: dict[str, _Span] = defaultdict(_Span)
    columns = devices.tolist(), start_s.tolist(), end_s.tolist()
    for name, *values in zip(tasks.columns["job_name"], *columns, strict=True):
        spans[name].add(*values)
    return spans


def _kept(table: Table, keep: Sequence[bool], what: str, notes: list[str]) -> Table:
    """Return the rows to keep; add a note with the number of those left out.

    Raises:
        TraceError: no row is left.
    """
    rows = np.flatnonzero(np.array(keep, dtype=bool))
    if len(rows) < len(table):
        notes.append(f"{len(table) - len(rows)} jobs {what} left out")
    if not len(rows):
        raise TraceError([f"{table.path}: no job is left; {'; '.join(notes)}"])
    return table.take(rows)
