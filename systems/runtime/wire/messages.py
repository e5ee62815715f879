"""Messages between a driver and its jobs' processes that all backends share.

Each class says in its first line which process sends it, and when. The tables at the end list the
classes by direction; a backend adds its own to them.
"""

from __future__ import annotations

import msgspec

from systems.runtime.wire.protocol import (
    Count,
    Greeting,
    Inbound,
    Message,
    Port,
    ProcessId,
    Result,
    Seconds,
    as_result,
)

# Greetings: a process to the driver, as its first message.


class ProcessGreeting(Greeting, frozen=True, kw_only=True):
    """Base of the greetings to a driver."""

    pid: ProcessId


class StoreGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="store_greeting"):
    """Store process to driver: it has started and awaits its order."""

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"the store of job {self.job_id}"


class RankGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="rank_greeting"):
    """Worker of a generation to driver: it has started and awaits its order."""

    generation: Count
    rank: Count

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"worker {self.rank} of job {self.job_id}"


# Driver to the store process.


class StoreOrder(Message, frozen=True, kw_only=True, tag="store_order"):
    """Driver to store process, after its greeting: the address on which the store must listen."""

    address: str


# Driver to all its processes.


class BeatRequest(Message, frozen=True, kw_only=True, tag="beat_request"):
    """Driver to process, several times within the hang time-out: answer with a beat."""


class StoreAt(Message, frozen=True, kw_only=True, tag="store_at"):
    """Driver to worker, when the store listens: its address and port."""

    address: str
    port: Port


class SetTarget(Message, frozen=True, kw_only=True, tag="set_target"):
    """Driver to worker, when the engine moves the step at which the job finishes."""

    target_step: Count


class Stop(Message, frozen=True, kw_only=True, tag="stop"):
    """Driver to worker, at a change that needs it: save and leave after the present step."""


class MayExit(Message, frozen=True, kw_only=True, tag="exit"):
    """Driver to process: nothing more is needed of it, so it may exit."""


# Processes to the driver.


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Progress of a job, as a worker reports it in several messages."""

    step: Count
    """Number of steps executed so far."""
    samples: Count
    """Number of samples consumed by these steps."""
    step_s: Seconds
    """Mean duration of the recent steps; 0 before the first."""
    ended: Seconds
    """End of the last step, on the driver's clock."""


class Beat(Message, frozen=True, kw_only=True, tag="beat"):
    """Process to driver: a sign of life, as the answer to a request."""


class StoreReady(Message, frozen=True, kw_only=True, tag="store_ready"):
    """Store process or first worker to driver: the store listens at this address and port."""

    address: str
    port: Port


class Failed(Message, frozen=True, kw_only=True, omit_defaults=False, tag="failed"):
    """Process to driver, before it exits with an error."""

    reason: str
    collective: bool = False
    """True if the error looks like a consequence of another process's death."""
    of_machine: bool = False
    """True if the disk or the system refused something, so that the program is not at fault."""
    is_of_all: bool = False
    """True if the error is a difference between workers, which ends the job."""
    of_thread: bool = False
    """True if a thread other than the training thread failed."""


class Warned(Message, frozen=True, kw_only=True, tag="warning"):
    """Worker to driver: a text for the user, about a fault that does not stop training."""

    text: str


class JobReport(Message, frozen=True, kw_only=True):
    """Base of the messages by which the first worker tells the job's progress."""

    progress: Progress


class FirstStep(JobReport, frozen=True, kw_only=True, tag="first_step"):
    """First worker to driver, after the first step since a start."""

    started: Seconds
    """Start of that step, on the driver's clock."""
    phases_s: dict[str, Seconds]
    """Seconds of each phase of the start, in order."""


class StepsDone(JobReport, frozen=True, kw_only=True, tag="steps_done"):
    """First worker to driver, some times a second while it trains."""


class Checkpoint(JobReport, frozen=True, kw_only=True):
    """Base of the first worker's messages about a checkpoint on disk."""

    path: str
    """Manifest of the checkpoint."""
    saved: Seconds
    """Time at which it was complete, on the driver's clock."""
    save_s: Seconds


class CheckpointWritten(Checkpoint, frozen=True, kw_only=True, tag="checkpoint_written"):
    """First worker to driver, after a periodic checkpoint; training goes on."""


class CheckpointKnown(Message, frozen=True, kw_only=True, tag="checkpoint_known"):
    """Driver to the worker that has written a checkpoint: the job resumes from it from now on."""

    path: str
    """Manifest of the checkpoint."""


class StoppedAtCheckpoint(Checkpoint, frozen=True, kw_only=True, tag="stopped_at_checkpoint"):
    """First worker to driver, after the checkpoint with which all workers stop."""


class Left(JobReport, frozen=True, kw_only=True, tag="left"):
    """Worker to driver, after its last step: no step of its own follows."""

    finished: bool
    """True if the job has reached its target."""
    overruns: Count
    """Number of steps that missed their pace."""


class Finished(JobReport, frozen=True, kw_only=True, tag="finished"):
    """First worker to driver, after the evaluation of a job that has reached its target."""

    digests: dict[str, str]
    """Digests of the final state."""
    metrics: dict[str, Result]
    """Results of the evaluation."""

    @property
    def results(self) -> dict[str, float | str]:
        """Digests and metrics together, as they are reported."""
        return {**self.digests, **{name: float(value) for name, value in self.metrics.items()}}


def finished(progress: Progress, digests: dict[str, str], metrics: dict[str, float]) -> Finished:
    """Return the message about a finished job; a metric may be a number that is not finite."""
    found = {name: as_result(value) for name, value in metrics.items()}
    return Finished(progress=progress, digests=digests, metrics=found)


# Tables. Each class is in one of them; a channel accepts the sum of some.

DRIVER_TO_PROCESS = (MayExit, CheckpointKnown)
DRIVER_TO_STORE = (StoreOrder,)
DRIVER_TO_WORKER = (BeatRequest, StoreAt, SetTarget, Stop)
PROCESS_TO_DRIVER = (Beat, Failed)
STORE_TO_DRIVER = (StoreReady,)
WORKER_TO_DRIVER = (
    Warned,
    FirstStep,
    StepsDone,
    CheckpointWritten,
    StoppedAtCheckpoint,
    Left,
    Finished,
)

TO_STORE = Inbound(*DRIVER_TO_PROCESS, *DRIVER_TO_STORE)
"""Messages that the store process accepts from the driver."""
FROM_STORE = Inbound(*PROCESS_TO_DRIVER, *STORE_TO_DRIVER)
"""Messages that a driver accepts from the store process."""
