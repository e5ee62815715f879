"""Gavel's traces: tab-separated, without a header, in three layouts.

- Seven fields (Gavel's simulations): job type, command, an argument's name, whether it needs a
  folder of data, steps, arrival in seconds, GPUs.
- Ten (its physical cluster): job type, command, working directory, an argument's name, whether
  it needs a folder of data, steps, GPUs, weight, SLO (negative: none), arrival.
- Twelve (Shockwave): as ten, with ``mode`` (``static``, ``accordion`` or ``gns``: how the job
  changes its own batch) before the weight and the duration in seconds before the arrival.

A job type is a program and its batch: ``ResNet-18 (batch size 32)``. The file does not say whether
this is the batch of one GPU. The reader takes it as the batch of a step on all GPUs, or multiplies
it by the GPUs (``batches=per_slot``). The command is a shell line; it is neither run nor kept.

Only Shockwave's layout has durations. The others' follow from a table of measured speeds
(``throughputs``, with columns worker_type, job_type, scale_factor and steps_per_second): steps /
steps per second at the job's GPUs. If a job type was measured on one GPU only, its speed there is
multiplied by the GPUs. The trace's history says for how many jobs.

The file does not state the unit of an SLO, and no published file of this kind has one. An SLO of 0
or more is therefore refused unless ``slo`` gives its unit: seconds, or durations of its job, both
from the job's arrival. A negative SLO means none.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads", OSDI 2020; Zheng et al., "Shockwave", NSDI 2023.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from harness.contracts.job import DeadlineKind
from harness.errors import suggest
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Floats, Table, read_rows, read_table, to_table
from harness.trace.parsing.values import numbers

_FIRST = ("job_type", "command")
_STEPS = ("num_steps_arg", "needs_data_dir", "total_steps")
_LAYOUTS: Mapping[int, tuple[str, ...]] = {
    7: (*_FIRST, *_STEPS, "arrival_time", "scale_factor"),
    10: (
        *_FIRST,
        "working_directory",
        *_STEPS,
        "scale_factor",
        "priority_weight",
        "SLO",
        "arrival_time",
    ),
    12: (
        *_FIRST,
        "working_directory",
        *_STEPS,
        "scale_factor",
        "mode",
        "priority_weight",
        "SLO",
        "duration",
        "arrival_time",
    ),
}
_JOB_TYPE = re.compile(r"(.+?) \(batch size (\d+)\)")
_NO_BATCH = 1
"""Batch of job types without a batch in their name (A3C, CycleGAN): one step counts as one
sample."""
WORKLOADS = {
    "ResNet-18": "resnet18",
    "ResNet-50": "resnet50",
    "Transformer": "transformer",
    "LM": "lm",
    "Recommendation": "recommendation",
    "A3C": "a3c",
    "CycleGAN": "cyclegan",
}
"""Workload of this project for the program of each job type."""


@dataclass(frozen=True)
class _Speeds:
    """Steps per second by job type and GPUs."""

    path: str
    steps_per_s: Mapping[tuple[str, int], float]


class GavelReader:
    """Reader of Gavel's and Shockwave's traces.

    Args:
        path: the file; ``.gz`` is fine.
        throughputs: a table of speeds in the same folder, from which durations follow; None:
            durations are those of the file, or unknown.
        worker_type: rows of that table that are used.
        workload_renames: workload of this project for each program in the file; None:
            ``WORKLOADS``.
        batches: whether the batch in a job type is the ``global`` one or each slot's.
        slo: unit of an SLO, ``seconds`` or ``durations``; ``refuse``: files with an SLO are
            refused.
        elastic: whether a scheduler may give another number of slots than was asked for.
    """

    def __init__(
        self,
        path: str,
        *,
        throughputs: str | None = None,
        worker_type: str = "v100",
        workload_renames: Mapping[str, str] | None = None,
        batches: Literal["global", "per_slot"] = "global",
        slo: Literal["refuse", "seconds", "durations"] = "refuse",
        elastic: bool = True,
    ) -> None:
        self._path = Path(path)
        self._throughputs = throughputs
        self._worker_type = worker_type
        self._renames = WORKLOADS if workload_renames is None else workload_renames
        self._batches = batches
        self._slo = slo
        self._elastic = elastic

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return False, because the file has no header that could identify it."""
        return False

    def parse(self) -> Submissions:
        """Return the rows as they are; see ``harness.trace.parsing.submissions.Reader``."""
        table = self._table()
        problems: list[str] = []
        programs, batch = _job_types(table, problems)
        arrival_s = numbers(table, "arrival_time", problems)
        slots = numbers(table, "scale_factor", problems, whole=True)
        steps = numbers(table, "total_steps", problems, whole=True)
        slo = np.full(len(table), np.nan)
        priority = None
        if "SLO" in table.columns:
            slo = numbers(table, "SLO", problems)
            slo[slo < 0] = np.nan
            priority = numbers(table, "priority_weight", problems, whole=True)
        duration_s = np.full(len(table), np.nan)
        if "duration" in table.columns:
            duration_s = numbers(table, "duration", problems)
        if problems:
            raise TraceError(problems)
        notes: set[str] = set()
        if self._throughputs is not None:
            speeds = _read_speeds(self._path.parent / self._throughputs, self._worker_type)
            duration_s = _durations(table, speeds, steps, slots, notes)
        deadline_s = arrival_s + self._allowed_s(table, slo, duration_s)
        if self._batches == "per_slot":
            batch = batch * slots
        return Submissions(
            path=table.path,
            lines=table.lines,
            arrival_s=arrival_s,
            requested_slots=slots.astype(np.int64),
            workload=[self._renames.get(name, name) for name in programs],
            global_batch=batch.astype(np.int64),
            work_samples=steps * batch,
            duration_s=duration_s,
            deadline_s=deadline_s,
            priority=None if priority is None else priority.astype(np.int64),
            elastic=self._elastic,
            deadline_kind=DeadlineKind.HARD,
            notes=frozenset(notes),
            names={
                "arrival_s": "arrival_time",
                "requested_slots": "scale_factor",
                "work_samples": "total_steps x batch",
                "deadline_s": "arrival_time + SLO",
                "duration_s": "duration",
            },
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the reader reads."""
        beside = [] if self._throughputs is None else [self._path.parent / self._throughputs]
        return (self._path, *beside)

    def read(self) -> Trace:
        """Return the trace; see ``harness.trace.parsing.submissions.Reader``."""
        made_up = ["workload", "global_batch", "work_samples", "deadline_s"]
        if self._throughputs is not None:
            made_up.append("duration_s")
        return to_trace(self.parse(), name=self._path.name.split(".")[0], generated=made_up)

    def _allowed_s(self, table: Table, slo: Floats, duration_s: Floats) -> Floats:
        """Return the seconds from arrival to deadline; NaN for jobs without one.

        Raises:
            TraceError: for every SLO that cannot be turned into seconds.
        """
        allowed_s = slo * duration_s if self._slo == "durations" else slo
        unclear = ~np.isnan(slo) & (np.isnan(allowed_s) | (self._slo == "refuse"))
        if unclear.any():
            raise TraceError(
                f"{table.where(row)}: SLO is {table.columns['SLO'][row]!r}; set reader.slo to "
                "seconds, or to durations if these are known"
                for row in np.flatnonzero(unclear).tolist()
            )
        return allowed_s

    def _table(self) -> Table:
        rows = read_rows(self._path, delimiter="\t", quotes=False)
        width = len(rows.cells[0]) if rows.cells else 0
        layout = _LAYOUTS.get(width)
        if layout is None:
            known = ", ".join(map(str, _LAYOUTS))
            raise TraceError(
                [
                    f"{rows.path}:{rows.lines[0] if rows.lines else 1}: has {width} fields between"
                    f" tabs; Gavel's traces have {known}. Give such a file, or describe this one"
                    " in a YAML (docs/how-to/add-a-trace.md)"
                ]
            )
        return to_table(rows, layout)


def _job_types(table: Table, problems: list[str]) -> tuple[list[str], Floats]:
    """Return the program and the batch of every job type."""
    programs: list[str] = []
    batch = np.full(len(table), float(_NO_BATCH))
    for row, cell in enumerate(table.columns["job_type"]):
        found = _JOB_TYPE.fullmatch(cell)
        programs.append(found[1] if found else cell)
        if found:
            batch[row] = float(found[2])
        elif "(" in cell or not cell:
            problems.append(
                f"{table.where(row)}: job_type is {cell!r}; give a program and its batch, such as"
                " 'ResNet-18 (batch size 32)'"
            )
    return programs, batch


def _read_speeds(path: Path, worker_type: str) -> _Speeds:
    table = read_table(path)
    wanted = ("worker_type", "job_type", "scale_factor", "steps_per_second")
    if missing := table.missing(wanted):
        raise TraceError(missing)
    problems: list[str] = []
    slots = numbers(table, "scale_factor", problems, whole=True)
    speed = numbers(table, "steps_per_second", problems)
    if problems:
        raise TraceError(problems)
    kinds = table.columns["worker_type"]
    if worker_type not in kinds:
        raise TraceError(
            [
                f"{table.path}: no speed of worker_type {worker_type!r};"
                f" {suggest(worker_type, set(kinds))}"
            ]
        )
    return _Speeds(
        table.path,
        {
            (job_type, int(slots[row])): float(speed[row])
            for row, job_type in enumerate(table.columns["job_type"])
            if kinds[row] == worker_type and speed[row] > 0
        },
    )


def _durations(
    table: Table, speeds: _Speeds, steps: Floats, slots: Floats, notes: set[str]
) -> Floats:
    """Return each job's duration at the slots it asks for, seconds.

    Raises:
        TraceError: for every job whose speed is unknown.
    """
    duration_s = np.full(len(table), np.nan)
    problems: list[str] = []
    num_linear = 0
    for row, job_type in enumerate(table.columns["job_type"]):
        count = int(slots[row])
        speed = speeds.steps_per_s.get((job_type, count))
        if speed is None and (alone := speeds.steps_per_s.get((job_type, 1))) is not None:
            speed = alone * count
            num_linear += 1
        if speed is None:
            problems.append(
                f"{table.where(row)}: {speeds.path} has no speed of {job_type!r}; add it, or leave"
                " out reader.throughputs"
            )
        else:
            duration_s[row] = steps[row] / speed
    if problems:
        raise TraceError(problems)
    if num_linear:
        notes.add(f"{num_linear} durations from the speed on 1 slot times the slots")
    return duration_s
