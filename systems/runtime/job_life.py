"""Where a job is, and what follows when its last process is gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.contracts.training import Phases

STARTING = ("spawn", "import", "build", "group", "load", "first_step")
"""Phases of a start, in their order; others may lie between them."""
FAILURE_GRACE_S = 0.5
"""How long a failure's neighbours are heard before it is judged: a worker whose neighbour
died may complain before the death is noticed."""

EXIT_TIMEOUT_S = 5.0
"""Longest way out, in seconds, of a worker that its job needs no more: everything is saved by then.
A worker that has stopped ends only when it is killed, and its job ends no earlier."""

_log = logging.getLogger(__name__)


def restart_phases() -> Phases:
    """Of a backend whose every change is a restart: a start's, after the way out."""
    stop = ("save", "stop")
    stopped = (*stop, *STARTING[:-1], "layout")
    return Phases(STARTING, (*stop, *STARTING), stop, stopped)


class Phase(StrEnum):
    """Where a job is."""

    IDLE = "idle"
    """No process."""
    STARTING = "starting"
    """Processes, but no step of theirs has ended."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Asked to save and leave."""
    FINISHING = "finishing"
    """All steps have ended; the first worker evaluates."""
    ENDING = "ending"
    """Its ending is known; its processes are on their way out."""


class Fate(StrEnum):
    """What follows when the last process is gone."""

    RELAUNCH = "relaunch"
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Ending:
    """What follows when the last process is gone, and why."""

    fate: Fate
    reason: str = ""
    results: Mapping[str, float | str] = field(default_factory=dict)
    of_machine: bool = False
    """With ``LOST``: whether its processes could not be started, which is not the job's fault."""


def tell_late_exit(job_id: str, processes: Sequence[str]) -> str:
    """Warn that these processes of a job had to be killed after its last step; the warning."""
    text = (
        f"{', '.join(processes)} had not ended {EXIT_TIMEOUT_S:g} s after the job's last step;"
        " killed, since the job needed nothing more of them"
    )
    _log.warning("job %s: %s", job_id, text)
    return text


def not_started(what: str, error: Exception, where: str) -> Ending:
    """Return the end of a job whose processes could not be started.

    What the system refuses (``OSError``) is no fault of the job, which can be resumed.
    """
    of_machine = isinstance(error, OSError)
    fate = Fate.LOST if of_machine else Fate.FAILED
    return Ending(fate, f"no {what}: {error}; {where}", of_machine=of_machine)
