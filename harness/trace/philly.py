"""Reader of the Microsoft Philly trace as one CSV: a row for each job, dates, no job ids.

Columns are ``timestamp`` (submission, ``2017-10-09 07:01:55``), ``duration`` (seconds of running),
``num_gpus``, ``gpu_time`` (their product; not read) and ``cluster`` (the virtual cluster, VC). Rows
are not in the order of time, and some are repeated: all are kept.

The program of a job is not known. Its workload is ``recorded``, its work is counted in slot-seconds
(duration x GPUs), and throughput is assumed to be linear. Its global batch is its number of GPUs:
one slot-second on each slot makes one step.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads", USENIX ATC 2019; the CSV is the one that Pollux (OSDI 2021) replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.errors import suggest
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import read_table
from harness.trace.parsing.values import dates, numbers

_COLUMNS = ("timestamp", "duration", "num_gpus")
_OWNER = "cluster"
RECORDED = "recorded"
"""Workload of a job whose program is unknown: work in slot-seconds, throughput linear."""


class PhillyReader:
    """Reader of the Philly CSV.

    Args:
        path: the file; ``.gz`` is fine.
        clusters: only the jobs of these virtual clusters; None: all.
        elastic: whether a scheduler may give another number of slots than was asked for.
            The recorded jobs had a fixed demand, so False.
    """

    def __init__(
        self, path: str, *, clusters: Sequence[str] | None = None, elastic: bool = False
    ) -> None:
        self._path = Path(path)
        self._clusters = clusters
        self._elastic = elastic

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns is of this format."""
        return set(_COLUMNS) <= set(columns)

    def parse(self) -> Submissions:
        """Return the rows as they are; see ``harness.trace.parsing.submissions.Reader``."""
        table = read_table(self._path)
        wanted = _COLUMNS if self._clusters is None else (*_COLUMNS, _OWNER)
        if missing := table.missing(wanted):
            raise TraceError(missing)
        notes: frozenset[str] = frozenset()
        if self._clusters is not None:
            owners = table.columns[_OWNER]
            unknown = sorted(set(self._clusters) - set(owners))
            if unknown:
                raise TraceError(
                    f"{table.path}: no job of cluster {name!r}; {suggest(name, set(owners))}"
                    for name in unknown
                )
            kept = np.flatnonzero(np.isin(owners, list(self._clusters)))
            notes = frozenset({f"{len(kept)} of {len(table)} rows, by the option clusters"})
            table = table.take(kept)
        problems: list[str] = []
        arrival_s = dates(table, "timestamp", problems)
        duration_s = numbers(table, "duration", problems)
        slots = numbers(table, "num_gpus", problems, whole=True)
        if problems:
            raise TraceError(problems)
        return Submissions(
            path=table.path,
            lines=table.lines,
            arrival_s=arrival_s,
            requested_slots=slots.astype(np.int64),
            workload=[RECORDED] * len(table),
            global_batch=slots.astype(np.int64),
            work_samples=duration_s * slots,
            work_in_slot_s=True,
            duration_s=duration_s,
            deadline_s=np.full(len(table), np.nan),
            owner=table.columns.get(_OWNER),
            elastic=self._elastic,
            notes=notes,
            names={
                "arrival_s": "timestamp",
                "duration_s": "duration",
                "requested_slots": "num_gpus",
                "global_batch": "num_gpus",
                "work_samples": "duration x num_gpus",
            },
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the reader reads."""
        return (self._path,)

    def read(self) -> Trace:
        """Return the trace; see ``harness.trace.parsing.submissions.Reader``."""
        return to_trace(
            self.parse(), name=self._path.name.split(".")[0], generated=("global_batch",)
        )
