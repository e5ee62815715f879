"""Phases of a job's life, and what follows when its last process has ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.contracts.abilities import Phases

STARTING = ("spawn", "import", "build", "group", "load", "first_step")
"""Phases of a start in order; others may lie between them."""
FAILURE_GRACE_S = 0.5
"""Time between the first reported failure and its judgement. A worker may complain about a dead
neighbour before the driver notices that death."""

EXIT_TIMEOUT_S = 5.0
"""Time limit for a worker that its job needs no more to exit; everything is saved by then. Without
it a worker that hangs would keep its job from ending."""

_log = logging.getLogger(__name__)


def restart_phases() -> Phases:
    """Return the phases of a backend that restarts all workers at every change.

    Such a change saves and stops, then goes through the phases of a start.
    """
    stop = ("save", "stop")
    stopped = (*stop, *STARTING[:-1], "layout")
    return Phases(STARTING, (*stop, *STARTING), stop, stopped)


class Phase(StrEnum):
    """Phase that a job is in."""

    IDLE = "idle"
    """The job has no process."""
    STARTING = "starting"
    """Processes exist, but no step of theirs has ended."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Workers were asked to save and leave."""
    FINISHING = "finishing"
    """All steps have ended; the first worker evaluates."""
    ENDING = "ending"
    """The job's ``Ending`` is known; its processes are about to exit."""


class Fate(StrEnum):
    """Kind of outcome when the last process has ended."""

    RELAUNCH = "relaunch"
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Ending:
    """Outcome when the last process has ended, and its reason."""

    fate: Fate
    reason: str = ""
    results: Mapping[str, float | str] = field(default_factory=dict)
    of_machine: bool = False
    """With ``LOST``: true if its processes could not be started, which is not the job's fault."""


def tell_late_exit(job_id: str, processes: Sequence[str]) -> str:
    """Log a warning that these processes had to be killed after their job's last step; return its
    text."""
    text = (
        f"{', '.join(processes)} had not ended {EXIT_TIMEOUT_S:g} s after the job's last step;"
        " killed, since the job needed nothing more of them"
    )
    _log.warning("job %s: %s", job_id, text)
    return text


def not_started(what: str, error: Exception, where: str) -> Ending:
    """Return the end of a job whose processes could not be started.

    What the system refuses (``OSError``) is not the job's fault: the job is lost, so it can be
    resumed.
    """
    of_machine = isinstance(error, OSError)
    fate = Fate.LOST if of_machine else Fate.FAILED
    return Ending(fate, f"no {what}: {error}; {where}", of_machine=of_machine)
