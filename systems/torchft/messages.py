"""Messages of jobs under torchft; those of all backends are in ``runtime.wire.messages``.

Each class says in its first line which process sends it, and when. The tables at the end list the
classes by direction.
"""

from __future__ import annotations

from systems.runtime.wire.control_server import Channels
from systems.runtime.wire.messages import (
    DRIVER_TO_PROCESS,
    PROCESS_TO_DRIVER,
    BeatRequest,
    CheckpointWritten,
    Finished,
    JobReport,
    ProcessGreeting,
    SetTarget,
    StepsDone,
    Stop,
    StoppedAtCheckpoint,
    Warned,
)
from systems.runtime.wire.protocol import Count, Inbound, Message, Seconds
from systems.torchft.order import LighthouseOrder, ReplicaOrder, Target

# Greetings.


class LighthouseGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="lighthouse_greeting"):
    """Lighthouse to driver: it has started and awaits its order."""

    run: Count
    """Number of starts and resumptions of the job, with the present one."""

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"the lighthouse of job {self.job_id}"


class ReplicaGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="replica_greeting"):
    """Replica to driver: it has started and awaits its order."""

    run: Count
    """Number of starts and resumptions of the job, with the present one."""
    number: Count
    """Number of the replica among those of the run, from 0."""

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"replica {self.number} of job {self.job_id}"


# Driver to replica.


class LighthouseAt(Message, frozen=True, kw_only=True, tag="lighthouse_at"):
    """Driver to replica, once the lighthouse listens: send heartbeats to this address."""

    address: str


class Go(Message, frozen=True, kw_only=True, tag="go"):
    """Driver to replica, once all new replicas are ready: ask for the first quorum."""


# Lighthouse to driver.


class LighthouseListens(Message, frozen=True, kw_only=True, tag="lighthouse_listens"):
    """Lighthouse to driver: it listens at this address."""

    address: str


# Replica to driver.


class ReplicaReady(Message, frozen=True, kw_only=True, tag="replica_ready"):
    """Replica to driver: it sends heartbeats and waits for ``Go``."""

    phases_s: dict[str, Seconds]
    """Seconds of each phase of its preparation, in order."""


class GenerationBegun(JobReport, frozen=True, kw_only=True, tag="generation_begun"):
    """First replica to driver, after the first step of a generation."""

    members: tuple[Count, ...]
    """Replicas of the quorum."""
    is_whole: bool
    """True if all of them train; otherwise some still take the state."""
    phases_s: dict[str, Seconds]
    """Phases since the last generation in which all its replicas trained."""


class TargetReport(JobReport, frozen=True, kw_only=True):
    """Base of the first replica's messages about a ``Target``."""

    target: Count
    """Number of the target."""


class TargetObeyed(TargetReport, frozen=True, kw_only=True, tag="target_obeyed"):
    """First replica to driver, when a target comes into force."""


class TargetReached(TargetReport, frozen=True, kw_only=True, tag="target_reached"):
    """First replica to driver, when a step has ended as a target wants it."""


class ReplicaLeft(JobReport, frozen=True, kw_only=True, tag="replica_left"):
    """Replica to driver, after its last step."""

    finished: bool
    """True if the job has reached its last step."""
    is_first: bool
    """True if this replica evaluates or saves the job."""
    overruns: Count
    """Late steps of the job since its last start or resumption."""


DRIVER_TO_LIGHTHOUSE = (LighthouseOrder,)
DRIVER_TO_REPLICA = (ReplicaOrder, LighthouseAt, Go, Target)
LIGHTHOUSE_TO_DRIVER = (LighthouseListens,)
REPLICA_TO_DRIVER = (ReplicaReady, GenerationBegun, TargetObeyed, TargetReached, ReplicaLeft)

TO_LIGHTHOUSE = Inbound(BeatRequest, *DRIVER_TO_LIGHTHOUSE)
"""Messages that a lighthouse accepts from the driver."""
TO_REPLICA = Inbound(*DRIVER_TO_PROCESS, BeatRequest, SetTarget, Stop, *DRIVER_TO_REPLICA)
"""Messages that a replica accepts from the driver."""
CHANNELS = Channels(
    {
        LighthouseGreeting: Inbound(*PROCESS_TO_DRIVER, *LIGHTHOUSE_TO_DRIVER),
        ReplicaGreeting: Inbound(
            *PROCESS_TO_DRIVER,
            *(Warned, StepsDone, CheckpointWritten, StoppedAtCheckpoint, Finished),
            *REPLICA_TO_DRIVER,
        ),
    }
)
"""Greetings and messages that a driver accepts from a job's processes."""
