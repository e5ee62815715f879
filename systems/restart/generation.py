"""One generation: the worker processes that train a job between two restarts.

A ``Generation`` is the driver's object. It starts the processes, sends each its order on connection
and passes on the store's address. It also records which workers have left, failed or died, and
decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.contracts.process import Exit, ProcessSpec
from systems.restart.order import WorkerOrder
from systems.runtime.driver.beats import after_silence
from systems.runtime.driver.job_protocol import JobServices
from systems.runtime.driver.job_status import Saved
from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.messages import (
    Checkpoint,
    Failed,
    FirstStep,
    Left,
    MayExit,
    StoreAt,
    StoreReady,
)
from systems.runtime.wire.protocol import Message, encode


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Reason that a worker reported before it gave up."""

    rank: int
    reason: str
    collective: bool
    """True if the failure looks like a consequence of another worker's death."""
    of_machine: bool = False
    """True if the disk or the system refused something, so that the program is not at fault."""


@dataclass
class Generation:
    """Processes of one generation, by rank. Times are on ``time.monotonic``."""

    orders: Sequence[WorkerOrder]
    specs: Sequence[ProcessSpec]
    services: JobServices
    spawned_at: float = 0.0
    handles: dict[int, int] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    exits: dict[int, Exit] = field(default_factory=dict)
    failures: list[WorkerFailure] = field(default_factory=list)
    failed_at: float = 0.0
    """Time of the first reported failure."""
    greeted_at: float = 0.0
    """Time at which the first worker, rank 0, was sent its order."""
    saved: Saved | None = None
    silent_s: dict[int, float] = field(default_factory=dict)
    """Seconds of silence of each worker that was killed for its silence."""
    _store: StoreAt | None = None
    _waiting: list[Message] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Number of this generation within its job, from 1."""
        return self.orders[0].generation

    @property
    def is_gone(self) -> bool:
        """True once every process that was started has ended."""
        return len(self.exits) == len(self.handles)

    @property
    def is_losing(self) -> bool:
        """True if a connection has ended but the end of its process is not known yet."""
        return any(
            not connection.is_open and rank not in self.exits
            for rank, connection in self.connections.items()
        )

    @property
    def is_killed_from_outside(self) -> bool:
        """True if a worker was killed neither by the driver nor by a fault that the run
        injected."""
        return any(end.is_kill_from_outside for end in self.exits.values())

    @property
    def is_of_machine(self) -> bool:
        """True if the machine, not the program, failed one of the processes."""
        of_ends = any(end.of_machine for end in self.exits.values())
        return of_ends or any(failure.of_machine for failure in self.failures)

    def rank_of(self, handle: int) -> int | None:
        """Return the rank of a process, or None if it is not of this generation."""
        return next((rank for rank, known in self.handles.items() if known == handle), None)

    def spawn(self) -> None:
        """Start one process for each rank.

        Raises:
            ControlError: an order holds an option that cannot be sent.
            Exception: whatever the launcher raises; the processes started so far stay in
                ``handles`` for ``kill``.
        """
        for order in self.orders:
            encode(order)  # fail here rather than when a worker asks for its order
        self.spawned_at = time.monotonic()
        for rank, spec in enumerate(self.specs):
            self.handles[rank] = self.services.launch(spec)

    def connected(self, rank: int, connection: Connection) -> bool:
        """Send a worker that has greeted its order; return False if this rank is not expected."""
        if rank not in self.handles or rank in self.connections:
            return False
        self.connections[rank] = connection
        self.services.send(connection, self.orders[rank])
        if rank == 0:
            self.greeted_at = time.monotonic()
            for message in self._waiting:
                self.services.send(connection, message)
            self._waiting.clear()
        elif self._store is not None:
            self.services.send(connection, self._store)
        return True

    def tell(self, message: Message) -> None:
        """Send a message to rank 0, or keep it until rank 0 connects."""
        if 0 in self.connections:
            self.services.send(self.connections[0], message)
        else:
            self._waiting.append(message)

    def note(self, rank: int, message: Message) -> None:
        """Record a message that means the same under every backend."""
        match message:
            case StoreReady():
                self._store = StoreAt(address=message.address, port=message.port)
                for other, connection in self.connections.items():
                    if other != 0:
                        self.services.send(connection, self._store)
            case Left():
                self.left.add(rank)
                self._let_go()
            case Failed():
                reason, of_machine = message.reason, message.of_machine
                failure = WorkerFailure(rank, reason, message.collective, of_machine)
                self.failures.append(failure)
                self.failed_at = self.failed_at or time.monotonic()
            case Checkpoint():
                self.saved = Saved.of(message)

    def exited(self, rank: int, end: Exit) -> None:
        """Record the end of a process, after reading what it still had sent."""
        if rank in self.connections:
            # Drain before closing: a last message may explain the end.
            self.services.server.drain(self.connections[rank])
            self.services.server.close_connection(self.connections[rank])
        self.exits[rank] = end
        self._let_go()

    def _let_go(self) -> None:
        """Let the workers that have left exit, once no worker trains.

        A worker that died counts as having left, since it will never say so.
        """
        if len(self.left | self.exits.keys()) == len(self.handles):
            for other, connection in self.connections.items():
                if other != 0:
                    self.services.send(connection, MayExit())

    def kill(self) -> None:
        """Kill all processes that have not ended."""
        for rank, handle in self.handles.items():
            if rank not in self.exits:
                self.services.kill(handle)

    def needed(self) -> dict[str, Connection]:
        """Return the connections of workers that the job needs, by generation and rank.

        Once rank 0 has made its last step, only rank 0 is needed: all others wait for permission to
        exit.
        """
        ranks = {0} if 0 in self.left else self.connections.keys()
        alive = ranks - self.exits.keys()
        return {f"{self.number}.{rank}": self.connections[rank] for rank in alive}

    def alive(self) -> list[int]:
        """Return the ranks whose processes have not ended."""
        return [rank for rank in self.handles if rank not in self.exits]

    def unexplained_end(self) -> Exit | None:
        """Return the first unexplained end of a worker, or None.

        An end is explained if the worker has reported a failure, or has left with exit code 0. A
        kill for silence is unexplained, and the reason says so. Call this only before the driver
        kills the generation.
        """
        spoken = {failure.rank for failure in self.failures}
        for rank, end in self.exits.items():
            if rank not in spoken and not (rank in self.left and end.returncode == 0):
                reason = after_silence(end.reason, self.silent_s.get(rank, 0.0))
                return replace(end, reason=f"worker {rank}: {reason}")
        return None

    def missing(self) -> str:
        """Return a text that names the ranks which have not connected, or says that all wait to
        train."""
        silent = [rank for rank in self.handles if rank not in self.connections]
        if silent:
            return f"workers {silent} of {len(self.handles)} have not connected"
        return f"all {len(self.handles)} workers have connected but do not train"


def phases_of(message: FirstStep, spawned_at: float, greeted_at: float) -> dict[str, float]:
    """Return the phases of a start: ``spawn``, then those that the first worker measured."""
    return {"spawn": greeted_at - spawned_at, **message.phases_s}
