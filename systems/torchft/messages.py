"""Messages between the driver and the processes of a job under torchft.

Orders and targets are in ``order``; all others are here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from systems.runtime.wire.control import Message

LIGHTHOUSE = -1
"""Number of the lighthouse in a greeting; replicas count from 0."""
HOLD, STOP, TARGET, JOIN = "hold", "stop", "target", "join"
GO, EXIT = "go", "exit"
FAILED, LISTENS, READY = "failed", "lighthouse", "ready"
GENERATION, OBEYED, ARRIVED, PROGRESS = "generation", "obeyed", "arrived", "progress"
LEFT, CHECKPOINT, SAVED, FINISHED = "left", "checkpoint", "saved", "finished"
STANDING = (GENERATION, OBEYED, ARRIVED, PROGRESS, LEFT, CHECKPOINT, SAVED, FINISHED)
"""Kinds of message that carry a replica's standing."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Progress of a job, as its first replica knows it."""

    step: int
    samples: int
    step_s: float
    """Mean duration of the recent steps."""
    ended: float
    """End of the last step, on ``time.monotonic``."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of a message."""
        return {
            "step": self.step,
            "samples": self.samples,
            "step_s": self.step_s,
            "ended": self.ended,
        }


def greeting(job_id: str, run: int, number: int, token: str) -> Message:
    """Return the first message of a process; ``run`` counts the job's starts and resumptions."""
    return {
        "kind": "greeting",
        "job_id": job_id,
        "run": run,
        "number": number,
        "token": token,
        "pid": os.getpid(),
    }


def failed(reason: str) -> Message:
    """Return a lighthouse's last message."""
    return {"kind": FAILED, "reason": reason}


def lighthouse(address: str) -> Message:
    """Return a lighthouse's message that it listens at ``address``."""
    return {"kind": LISTENS, "address": address}


def hold(target_step: int) -> Message:
    """Return the driver's message that the job ends at another step."""
    return {"kind": HOLD, "target_step": target_step}


def stop() -> Message:
    """Return the driver's message that the job saves and ends."""
    return {"kind": STOP}


def join(address: str) -> Message:
    """Return the driver's message that a replica sends heartbeats to the lighthouse."""
    return {"kind": JOIN, "address": address}


def go() -> Message:
    """Return the driver's message that a replica asks for its first quorum."""
    return {"kind": GO}


def leave() -> Message:
    """Return the driver's permission to exit."""
    return {"kind": EXIT}


def ready(phases_s: Mapping[str, float]) -> Message:
    """Return a replica's message that it sends heartbeats and waits for ``go``."""
    return {"kind": READY, "phases_s": dict(phases_s)}


def generation(
    standing: Standing, members: Sequence[int], is_whole: bool, phases_s: Mapping[str, float]
) -> Message:
    """Return the first replica's message after the first step of a generation.

    Args:
        standing: progress after the step.
        members: replicas of the quorum.
        is_whole: true if all of them train; otherwise some still take the state.
        phases_s: phases since the last generation in which all its replicas trained.
    """
    return {
        "kind": GENERATION,
        "members": list(members),
        "is_whole": is_whole,
        "phases_s": dict(phases_s),
        **standing.fields(),
    }


def obeyed(standing: Standing, target: int) -> Message:
    """Return the first replica's message that a target is in force."""
    return {"kind": OBEYED, "target": target, **standing.fields()}


def arrived(standing: Standing, target: int) -> Message:
    """Return the first replica's message that a step has ended as a target wants it."""
    return {"kind": ARRIVED, "target": target, **standing.fields()}


def progress(standing: Standing) -> Message:
    """Return the first replica's message on its progress."""
    return {"kind": PROGRESS, **standing.fields()}


def left(standing: Standing, *, finished: bool, is_first: bool, overruns: int) -> Message:
    """Return a replica's message after its last step.

    Args:
        standing: progress after that step.
        finished: true if the job has reached its last step.
        is_first: true if this replica evaluates or saves the job.
        overruns: late steps of the job since its last start or resumption.
    """
    return {
        "kind": LEFT,
        "finished": finished,
        "is_first": is_first,
        "overruns": overruns,
        **standing.fields(),
    }


def saved(standing: Standing, path: str, *, at: float, save_s: float, is_periodic: bool) -> Message:
    """Return the first replica's message about a checkpoint on disk."""
    return {
        "kind": CHECKPOINT if is_periodic else SAVED,
        "path": path,
        "saved": at,
        "save_s": save_s,
        **standing.fields(),
    }


def finished(standing: Standing, results: Mapping[str, Any]) -> Message:
    """Return the first replica's message with the results of the job."""
    return {"kind": FINISHED, "results": dict(results), **standing.fields()}
