"""What the driver's loop and a job's state machine know of each other, and no more.

The driver owns the processes and the connections of all jobs; a job knows what they mean. A
job is made anew for every START; everything that it hears comes through the methods below,
on the driver's one thread.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from harness.contracts.engine import Change
from harness.contracts.launcher import Exit, Launcher, ProcessSpec
from harness.contracts.training import Report, TrainingOrder
from systems.runtime.control_server import Connection, ControlServer

IDLE_WAIT_S = 0.25
"""How often exits are asked for when nothing hints at one. A worker that dies while it is
connected is noticed at once, by the end of its connection."""
STARTING_WAIT_S = 0.05
LOSING_WAIT_S = 0.005


@dataclass(frozen=True, slots=True)
class Hands:
    """What a job acts with: processes, messages, reports. One for each job."""

    token: str
    """What the job's processes must show."""
    report: Callable[[Report], None]
    launch: Callable[[ProcessSpec], int]
    """Start a process of this job; the job is told of its end. Raises what launchers raise."""
    server: ControlServer
    launcher: Launcher

    def kill(self, handle: int) -> None:
        """Send SIGKILL; nothing happens if the process has ended."""
        self.launcher.signal(handle, signal.SIGKILL)

    def send(self, connection: Connection, message: Mapping[str, Any]) -> None:
        """Queue a message; one for a closed connection is dropped."""
        self.server.send(connection, message)


class DrivenJob(Protocol):
    """The state machine of one job. Implementations: ``JobGroup``, ``ElasticJob``."""

    @property
    def step(self) -> int:
        """Steps executed so far."""
        ...

    @property
    def samples(self) -> int:
        """Samples consumed by them."""
        ...

    @property
    def change(self) -> Change | None:
        """The one in flight."""
        ...

    @property
    def serial(self) -> int:
        """Counts what the job has launched; a job of the same name counts on from there, so
        that no two of their processes or logs share a name."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it has processes."""
        ...

    def begin(self, change: Change) -> None:
        """START or RESUME; only without processes and without a change in flight."""
        ...

    def alter(self, change: Change) -> None:
        """RESCALE, MIGRATE or SUSPEND; only with processes and without a change in flight."""
        ...

    def stop(self, change: Change) -> None:
        """Kill the job, whatever it is doing; a change in flight has failed with that."""
        ...

    def hold(self, target_step: int) -> None:
        """Move the step at which the job finishes."""
        ...

    def greeted(self, connection: Connection) -> bool:
        """A process has greeted with the right token. False if it is not expected."""
        ...

    def heard(self, connection: Connection, message: Mapping[str, Any]) -> None:
        """A process that was greeted has said something."""
        ...

    def disconnected(self, connection: Connection) -> None:
        """The connection of a process that was greeted has ended."""
        ...

    def exited(self, handle: int, end: Exit) -> None:
        """A process has ended. ``check`` follows once all ends of the moment are known."""
        ...

    def check(self) -> None:
        """See whether something is overdue, has failed, or is complete."""
        ...

    def wait_s(self, now: float) -> float:
        """Longest time until ``check`` has to be called and exits have to be looked for."""
        ...


MakeJob: TypeAlias = Callable[[TrainingOrder, Hands, DrivenJob | None], DrivenJob]
"""Makes the state machine of a job; last, the one that had its name before."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that is on the disk."""

    path: str
    step: int
    samples: int

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Saved:
        """What a worker said when it had written it."""
        return cls(message["path"], message["step"], message["samples"])


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a job may take to start and to stop, and a worker be silent, seconds."""

    start_s: float
    stop_s: float
    hang_s: float
