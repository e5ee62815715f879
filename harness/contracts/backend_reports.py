"""Reports of a backend on its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReportKind(StrEnum):
    """Kinds of report from a backend; ``Report`` says when each comes."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    DONE = "done"
    FAILED = "failed"
    PROGRESS = "progress"
    FINISHED = "finished"
    LOST = "lost"
    SHRUNK = "shrunk"


@dataclass(frozen=True, slots=True)
class Report:
    """One fact from a backend, on the clock of ``time.monotonic``.

    DONE comes once the first step after a START, RESUME, RESCALE or MIGRATE has ended. After a
    SUSPEND or STOP it comes once every process is gone. FINISHED comes once the last step has ended
    and every process is gone. LOST comes when the workers died and cannot go on by themselves.
    SHRUNK comes once the survivors have ended their first step without workers that died or that
    the backend removed.

    SHRUNK comes only while the job has no change in flight: the backend answers such a change with
    DONE, FAILED or RETRY first.
    """

    kind: ReportKind
    job_id: str
    at_s: float
    change_id: int | None = None
    step: int = 0
    """Steps executed by the job so far, over all its processes and restarts."""
    samples: int = 0
    """Samples consumed by those steps."""
    step_s: float = 0.0
    """Mean duration of the recent steps at the present size; 0 before the first step has ended."""
    stopping_time_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Duration of each phase of the change, in seconds, under the backend's names of its phases. A
    backend that stops its workers has: save, stop, spawn, import, build, group, load, first_step. A
    phase that workers go through in parallel counts with its longest duration. With SHRUNK: phases
    of the recovery."""
    reason: str = ""
    """Reason for the report. With FINISHED: the processes that had to be killed because they did
    not end by themselves."""
    results: Mapping[str, float | str] = field(default_factory=dict)
    """With FINISHED: evaluation metrics and digests."""
    slots: tuple[int, ...] = ()
    """With SHRUNK: the slots that remain, in rank order."""
    lost_slots: tuple[int, ...] = ()
    """With SHRUNK: the slots whose workers died or were removed; they are free."""
    stragglers: tuple[str, ...] = ()
    """With SHRUNK: process names of the workers in ``lost_slots`` that were removed because they
    were slow. ``phases_s`` then has ``remove``, from their detection to this report, and
    ``remove_switch``, from their detection to the first step without them."""
    of_machine: bool = False
    """With LOST: True if the machine failed (a full disk, a launcher that lost its processes). Such
    a loss does not count against the job."""
