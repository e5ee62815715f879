"""The seam between the driver's loop and the state machine of one job.

The driver owns the processes and connections of all jobs; a job knows what they mean. Every START
makes a new job object. All its methods are called on the driver's one thread.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from harness.contracts.backend_reports import Report
from harness.contracts.change import Change
from harness.contracts.launcher import Launcher
from harness.contracts.process import Exit, ProcessSpec
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.job_status import JobStatus
from systems.runtime.wire.control_server import Channels, Connection, ControlServer
from systems.runtime.wire.protocol import Message

IDLE_WAIT_S = 0.25
"""Longest wait between two looks for ended processes when nothing hints at one. The end of a
connection shows the death of a connected worker at once."""
# While workers start: a worker that has not connected yet ends without any hint.
STARTING_WAIT_S = 0.05
# While processes end: the next start waits for the last of them.
LOSING_WAIT_S = 0.005


@dataclass(frozen=True, slots=True)
class JobServices:
    """Means by which a job acts: processes, messages, reports. Each job has its own."""

    token: str
    """Token that the job's processes must send in their greeting."""
    report: Callable[[Report], None]
    launch: Callable[[ProcessSpec], int]
    """Start a process of this job and return its handle; ``DrivenJob.exited`` reports its end.
    Raises what launchers raise."""
    server: ControlServer
    launcher: Launcher

    def kill(self, handle: int) -> None:
        """Send SIGKILL to a process; do nothing if it has ended."""
        self.launcher.signal(handle, signal.SIGKILL)

    def send(self, connection: Connection, message: Message) -> None:
        """Queue a message; drop it if the connection is closed."""
        self.server.send(connection, message)


class DrivenJob(Protocol):
    """State machine of one job. Implementations: ``JobGroup``, ``ElasticJob``, ``TorchrunJob``,
    ``TorchftJob``."""

    @property
    def channels(self) -> Channels:
        """Greetings and messages that the job accepts from its processes."""
        ...

    @property
    def status(self) -> JobStatus:
        """Progress, phase and change of the job."""
        ...

    @property
    def is_alive(self) -> bool:
        """True while the job has processes."""
        ...

    def begin(self, change: Change) -> None:
        """Start workers, for START or RESUME. The caller ensures that the job has no process and
        that its last change has ended."""
        ...

    def alter(self, change: Change) -> None:
        """Change the workers, for RESCALE, MIGRATE or SUSPEND. The caller ensures that processes
        exist and no change is in flight."""
        ...

    def stop(self, change: Change) -> None:
        """Kill the job, whatever it is doing; report a change in flight as failed."""
        ...

    def set_target_step(self, target_step: int) -> None:
        """Move the step at which the job finishes."""
        ...

    def greeted(self, connection: Connection) -> bool:
        """Take the connection of a process that sent the right token; return False if the job does
        not expect it."""
        ...

    def heard(self, connection: Connection, message: Any) -> None:
        """Handle a message of a process that ``greeted`` accepted.

        Raises:
            ControlError: the message makes no sense; the driver then closes the connection.
        """
        ...

    def disconnected(self, connection: Connection) -> None:
        """Handle the end of the connection of a process that ``greeted`` accepted."""
        ...

    def exited(self, handle: int, end: Exit) -> None:
        """Record the end of a process. The driver calls ``check`` after it has reported all ends of
        the moment."""
        ...

    def check(self) -> None:
        """Check whether something is overdue, has failed, or is complete, and act on it."""
        ...

    def wait_s(self, now: float) -> float:
        """Return the longest time until ``check`` must be called and ended processes must be looked
        for."""
        ...


MakeJob: TypeAlias = Callable[[TrainingOrder, JobServices, int], DrivenJob]
"""Makes the state machine of a job. The last argument is where the job's numbers begin, see
``JobStatus.serial``."""
