"""Options that describe the columns of a CSV file of job submissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.contracts.job import DeadlineKind
from harness.trace.parsing.cells import Scalar
from harness.trace.parsing.submissions import ImpossibleDeadlines
from harness.trace.parsing.values import RepeatedHour

NO_VALUE = ("Unknown", "None", "N/A", "null", "<none>", "<unknown>")
"""Texts that Slurm, Kubernetes and exports of tables write for a missing value."""


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Options that describe the columns of a CSV file."""

    path: str = field(kw_only=False)
    """The file; it may be compressed (``.gz``)."""
    columns: Mapping[str, str | Sequence[str]]
    """Column of the file for each field of a job. Several names are allowed, for files that name
    the column differently; each file has one of them."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Regular expression for each field; only the part of a cell that its one group matches is
    read."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit of ``arrival``, ``duration``, ``deadline``, ``start`` and ``end``: ``s`` (default),
    ``ms``, ``min``, ``h``, ``d``, ``hms`` (parts, as ``2-01:24:56`` or ``3d4h``) or ``date``
    (not for a duration)."""
    date_format: str | None = None
    """Format of the dates, as for ``strptime``; None: ISO 8601."""
    time_zone: str | None = None
    """Zone of dates without one, such as ``Europe/Berlin``; None: UTC."""
    repeated_hour: RepeatedHour = "refuse"
    """Meaning of dates without a zone in the hour that clocks show twice when summer time ends."""
    constants: Mapping[str, Scalar | Mapping[str, Scalar]] = field(default_factory=dict)
    """Values of fields that have no column; a mapping gives one for each workload, by its new name
    if it is renamed."""
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    """Values for empty cells."""
    no_value: Sequence[str] = NO_VALUE
    """Texts of cells that mean "no value"; such a cell counts as empty."""
    workload_renames: Mapping[str, str] = field(default_factory=dict)
    """Name of a workload of this project for each name in the file."""
    workloads: Sequence[str] | None = None
    """Allowed workloads, by their names after renaming; None: all."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factor on ``slots``, ``batch`` or ``work``: 0.001 for thousandths of a device."""
    fractions: Literal["refuse", "round_up"] = "refuse"
    """Treatment of a job that asks for a part of a slot."""
    deadlines: Literal["absolute", "relative"] = "absolute"
    """Origin of deadlines: the clock of ``arrival`` (absolute), or the job's arrival (relative)."""
    deadline_kind: DeadlineKind = DeadlineKind.HARD
    """Kind of the deadlines, ``hard`` or ``soft``."""
    impossible_deadlines: ImpossibleDeadlines = "refuse"
    """Treatment of a deadline at or before its submission: the trace is refused (``refuse``), the
    job loses the deadline (``drop_deadline``), or the job is left out (``drop_job``)."""
    work: Literal["samples", "iterations", "epochs", "slot_seconds"] = "samples"
    """Unit of the field ``work``: ``samples``, ``iterations`` (x global batch), ``epochs`` (x
    ``samples_per_epoch`` of the workload) or ``slot_seconds``."""
    samples_per_epoch: Mapping[str, int] = field(default_factory=dict)
    """Samples of an epoch by workload, for work in epochs."""
    batches: Literal["global", "per_slot"] = "global"
    """Meaning of ``batch``: the global batch, or each slot's (then multiplied by the slots)."""
    keep_where: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    """Column to the values whose rows are kept; other rows are left out."""
    drop_where: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    """Column to the values whose rows are left out; ``""`` is an empty cell or a ``no_value``."""
    keep_matching: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Column to one or more regular expressions; a row in which none is found is left out."""
    drop_matching: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Column to one or more regular expressions; a row in which any is found is left out."""
    delimiter: str = ","
    """Character between cells; ``"\\t"`` for tabs."""
    quotes: bool | None = None
    """True if a cell may be in quotes, as in CSV. None means true unless the delimiter is ``|``,
    since ``sacct`` writes quotation marks of a name unchanged."""
    header: Sequence[str] | None = None
    """Names of the columns of a file that has no header line."""
    generated: Sequence[str] = ()
    """Fields of ``JobSpec`` that were generated and not recorded; constants are added to them."""
