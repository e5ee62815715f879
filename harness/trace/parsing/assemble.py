"""Conversion between the rows of a file and the jobs of a trace, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.contracts.job import DeadlineKind, JobSpec
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.findings import impossible, row_problems
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Floats


def to_trace(rows: Submissions, *, name: str, generated: Sequence[str] = ()) -> Trace:
    """Return the trace of a file's rows: sorted by arrival, then job id; the first arrives at 0.

    Rows that share an arrival and have no ids keep the order of the file. Deadlines move with the
    arrivals. The history lists the rows and deadlines that the reader's options drop.

    Raises:
        TraceError: for every row that cannot become a job.
    """
    if problems := row_problems(rows):
        raise TraceError(problems)
    history = sorted(rows.notes)
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
    made = list(_jobs(rows, first_s))
    waits_s = [] if rows.wait_s is None else zip(made, rows.wait_s.tolist(), strict=True)
    jobs = sorted(made, key=lambda job: job.order)
    return Trace(
        name=name,
        jobs=tuple(jobs),
        generated=frozenset(generated),
        history=tuple(history),
        work_in_slot_s=rows.work_in_slot_s,
        # A start before its submission is a clock error; NaN means unknown.
        recorded_wait_s={job.job_id: wait_s for job, wait_s in waits_s if wait_s >= 0},
    )


def _jobs(rows: Submissions, first_s: float) -> Iterator[JobSpec]:
    """Yield the jobs of sorted rows.

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
    highest = _whole_or_none(rows.max_slots, count)
    logical = _whole_or_none(rows.logical_workers, count)
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
        logical,
        [d if has else None for d, has in zip(deadlines, with_deadline, strict=True)],
        [rows.deadline_kind if has else DeadlineKind.NONE for has in with_deadline],
        flags,
        priorities,
        owners,
        [d if has else None for d, has in zip(durations, with_duration, strict=True)],
        strict=True,
    )
    for row, values in enumerate(columns):
        (job_id, arrival_s, workload, slots, work, batch, low, high, workers, *rest) = values
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
                logical_workers=workers,
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


def _whole_or_none(values: Floats | None, count: int) -> list[int | None]:
    """Return the numbers of all rows as integers; None for rows without one."""
    if values is None:
        return [None] * count
    return [None if value != value else int(value) for value in values.tolist()]


def from_trace(trace: Trace) -> Submissions:
    """Return a loaded trace as columns again, for ``lint`` and ``show``."""
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
        work_in_slot_s=trace.work_in_slot_s,
    )
