"""Reader of the pods of Alibaba's GPU-sharing cluster of 2023 (openb).

Columns are ``name``, ``num_gpu`` (0 to 8), ``gpu_milli`` (1000: whole GPUs; less: a share of one),
``qos``, ``pod_phase`` (Running, Succeeded, Failed, Pending), ``creation_time``, ``deletion_time``
and ``scheduled_time`` (seconds on one clock; empty: never scheduled). CPU and memory are not read.

Pods without a GPU and pods that were never scheduled are left out and counted. A job runs from its
scheduling to its deletion, whatever its phase, since a failed pod held its GPUs until then. It asks
for ``num_gpu`` x ``gpu_milli`` / 1000 devices. If a slot is a whole device, a job that asks for a
share of one gets all of it. The trace then asks for more slot-hours than the cluster gave. With
``slots_per_device=10`` a slot is a tenth of a device, and the rest is rounded up. The trace's
history states the hours that rounding adds.

Many pods are not training jobs but serve requests. Their programs are not known, so their work is
counted in slot-seconds, as for Philly.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.fractions import whole_slots
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Floats, Table, read_table
from harness.trace.parsing.values import numbers
from harness.trace.philly import RECORDED

_COLUMNS = (
    "name",
    "num_gpu",
    "gpu_milli",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)


class OpenbReader:
    """Reader of the list of pods.

    Args:
        path: the file; ``.gz`` is fine.
        slots_per_device: equal parts of a device, each of which is one slot.
        drop_phases: phases whose pods are left out.
        elastic: whether a scheduler may give another number of slots than was asked for.

    Raises:
        ValueError: ``slots_per_device`` is below 1.
    """

    def __init__(
        self,
        path: str,
        *,
        slots_per_device: int = 1,
        drop_phases: Sequence[str] = (),
        elastic: bool = False,
    ) -> None:
        if slots_per_device < 1:
            raise ValueError(f"slots_per_device is {slots_per_device}; it must be at least 1")
        self._path = Path(path)
        self._slots_per_device = slots_per_device
        self._drop_phases = frozenset(drop_phases)
        self._elastic = elastic

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns is of this format."""
        return set(_COLUMNS) <= set(columns)

    def parse(self) -> Submissions:
        """Return the rows as they are; see ``harness.trace.parsing.submissions.Reader``."""
        table = read_table(self._path)
        if missing := table.missing(_COLUMNS):
            raise TraceError(missing)
        notes: list[str] = []
        table = self._with_gpus(table, notes)
        problems: list[str] = []
        gpus = numbers(table, "num_gpu", problems, whole=True)
        share = numbers(table, "gpu_milli", problems, whole=True)
        arrival_s = numbers(table, "creation_time", problems)
        started_s = numbers(table, "scheduled_time", problems)
        ended_s = numbers(table, "deletion_time", problems)
        if problems:
            raise TraceError(problems)
        devices, duration_s = gpus * share / 1000.0, ended_s - started_s
        slots, num_parts = whole_slots(devices * self._slots_per_device)
        if num_parts:
            notes.append(self._rounding(num_parts, devices, slots, duration_s))
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
            wait_s=started_s - arrival_s,
            deadline_s=np.full(len(table), np.nan),
            job_ids=table.columns["name"],
            owner=table.columns["qos"],
            elastic=self._elastic,
            notes=frozenset(notes),
            names={
                "job_id": "name",
                "arrival_s": "creation_time",
                "duration_s": "deletion_time - scheduled_time",
                "requested_slots": "num_gpu x gpu_milli",
                "global_batch": "num_gpu x gpu_milli",
                "work_samples": "duration x slots",
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

    def _with_gpus(self, table: Table, notes: list[str]) -> Table:
        """Return the pods that held a GPU; add a note for each kind of pod that is left out."""
        for what, column, left_out in (
            ("without a GPU", "num_gpu", frozenset({"0"})),
            ("in a phase of drop_phases", "pod_phase", self._drop_phases),
            ("that were never scheduled", "scheduled_time", frozenset({""})),
        ):
            cells = table.columns[column]
            kept = [row for row, cell in enumerate(cells) if cell not in left_out]
            if len(kept) < len(table):
                notes.append(f"{len(table) - len(kept)} pods {what} left out")
                table = table.take(np.array(kept, dtype=np.int64))
        if not len(table):
            raise TraceError([f"{table.path}: no job is left; {'; '.join(notes)}"])
        return table

    def _rounding(self, num_parts: int, devices: Floats, slots: Floats, duration_s: Floats) -> str:
        asked_h = float((devices * duration_s).sum()) / 3600
        given_h = float((slots * duration_s).sum()) / self._slots_per_device / 3600
        return (
            f"{num_parts} jobs ask for a part of a slot, rounded up: {asked_h:,.0f} device-hours"
            f" become {given_h:,.0f}"
        )
