"""One generation: the worker processes that train a job between two restarts.

Kept by the driver. It starts the processes, hands each its order as it connects, passes the
store's address on, and knows who has left, failed or died. It decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.contracts.launcher import Exit, ProcessSpec
from systems.runtime.beats import after_silence
from systems.runtime.control import Message, encode
from systems.runtime.control_server import Connection
from systems.runtime.driven_job import Hands, Saved
from systems.runtime.order import WorkerOrder


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """What a worker said before it gave up."""

    rank: int
    reason: str
    collective: bool
    """Whether it looks like the consequence of another worker's death."""
    of_machine: bool = False
    """Whether the disk or the system refused, so that the program is not at fault."""


@dataclass
class Generation:
    """Processes of one generation, by rank. Times are ``time.monotonic``."""

    orders: Sequence[WorkerOrder]
    specs: Sequence[ProcessSpec]
    hands: Hands
    spawned_at: float = 0.0
    handles: dict[int, int] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    exits: dict[int, Exit] = field(default_factory=dict)
    failures: list[WorkerFailure] = field(default_factory=list)
    failed_at: float = 0.0
    """When the first failure was reported."""
    greeted_at: float = 0.0
    """When the first worker, rank 0, had its order."""
    saved: Saved | None = None
    silent_s: dict[int, float] = field(default_factory=dict)
    """Of the workers that were killed for their silence: for how long they had been silent."""
    _store: Mapping[str, Any] | None = None
    _waiting: list[Message] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Counts the generations of a job, from 1."""
        return self.orders[0].generation

    @property
    def is_gone(self) -> bool:
        """Whether every process that was started has ended."""
        return len(self.exits) == len(self.handles)

    @property
    def is_losing(self) -> bool:
        """Whether a connection ended whose process' end was not yet noticed."""
        return any(
            not connection.is_open and rank not in self.exits
            for rank, connection in self.connections.items()
        )

    @property
    def is_killed_from_outside(self) -> bool:
        """Whether one of the workers was killed, neither by the driver nor by a fault that the run
        wanted."""
        return any(end.is_kill_from_outside for end in self.exits.values())

    @property
    def is_of_machine(self) -> bool:
        """Whether the machine failed one of the processes."""
        of_ends = any(end.of_machine for end in self.exits.values())
        return of_ends or any(failure.of_machine for failure in self.failures)

    def rank_of(self, handle: int) -> int | None:
        """The rank of a process, or None if it is not of this generation."""
        return next((rank for rank, known in self.handles.items() if known == handle), None)

    def spawn(self) -> None:
        """Start one process for each rank.

        Raises:
            ControlError: an order holds an option that cannot be sent.
            Exception: whatever the launcher raises; the processes started so far stay in
                ``handles`` for ``kill``.
        """
        for order in self.orders:
            encode(order.message())  # refused here rather than when a worker asks for it
        self.spawned_at = time.monotonic()
        for rank, spec in enumerate(self.specs):
            self.handles[rank] = self.hands.launch(spec)

    def connected(self, rank: int, connection: Connection) -> bool:
        """A worker has greeted: hand it its order. False if this rank is not awaited."""
        if rank not in self.handles or rank in self.connections:
            return False
        self.connections[rank] = connection
        self.hands.send(connection, self.orders[rank].message())
        if rank == 0:
            self.greeted_at = time.monotonic()
            for message in self._waiting:
                self.hands.send(connection, message)
            self._waiting.clear()
        elif self._store is not None:
            self.hands.send(connection, self._store)
        return True

    def tell(self, message: Message) -> None:
        """Send to the first worker; kept until it has connected."""
        if 0 in self.connections:
            self.hands.send(self.connections[0], message)
        else:
            self._waiting.append(message)

    def note(self, rank: int, message: Mapping[str, Any]) -> None:
        """Book-keeping for the messages that mean the same under every backend."""
        kind = message["kind"]
        if kind == "store":
            self._store = message
            for other, connection in self.connections.items():
                if other != 0:
                    self.hands.send(connection, message)
        elif kind == "left":
            self.left.add(rank)
            self._let_go()
        elif kind == "failed":
            reason, of_machine = message["reason"], message.get("of_machine", False)
            failure = WorkerFailure(rank, reason, message["collective"], of_machine)
            self.failures.append(failure)
            self.failed_at = self.failed_at or time.monotonic()
        elif kind in ("checkpoint", "saved"):
            self.saved = Saved.from_message(message)

    def exited(self, rank: int, end: Exit) -> None:
        """A process has ended: take what it still had to say, then bury it."""
        if rank in self.connections:
            self.hands.server.drain(self.connections[rank])
            self.hands.server.close_connection(self.connections[rank])
        self.exits[rank] = end
        self._let_go()

    def _let_go(self) -> None:
        """Who has left may go once nobody trains: one that died on its way out will not say that
        it left, and nobody has to wait for that."""
        if len(self.left | self.exits.keys()) == len(self.handles):
            for other, connection in self.connections.items():
                if other != 0:
                    self.hands.send(connection, {"kind": "exit"})

    def kill(self) -> None:
        """Kill what is left."""
        for rank, handle in self.handles.items():
            if rank not in self.exits:
                self.hands.kill(handle)

    def needed(self) -> dict[str, Connection]:
        """Connections of the workers without which the job cannot go on, by generation and rank.

        Once the first has made its last step it alone is needed: all others wait to be let go.
        """
        ranks = {0} if 0 in self.left else self.connections.keys()
        alive = ranks - self.exits.keys()
        return {f"{self.number}.{rank}": self.connections[rank] for rank in alive}

    def alive(self) -> list[int]:
        """Ranks whose processes have not ended."""
        return [rank for rank in self.handles if rank not in self.exits]

    def unexplained_end(self) -> Exit | None:
        """The end of a process that neither left in order, nor failed with words, nor was
        killed by us, or None."""
        spoken = {failure.rank for failure in self.failures}
        for rank, end in self.exits.items():
            if rank not in spoken and not (rank in self.left and end.returncode == 0):
                reason = after_silence(end.reason, self.silent_s.get(rank, 0.0))
                return replace(end, reason=f"worker {rank}: {reason}")
        return None

    def missing(self) -> str:
        """For a person: which ranks have not connected, or not come further, and their logs."""
        silent = [rank for rank in self.handles if rank not in self.connections]
        if silent:
            return f"workers {silent} of {len(self.handles)} have not connected"
        return f"all {len(self.handles)} workers have connected but do not train"


def phases_of(message: Mapping[str, Any], spawned_at: float, greeted_at: float) -> dict[str, float]:
    """Phases of a start: ``spawn``, then what the first worker measured."""
    return {"spawn": greeted_at - spawned_at, **message["phases_s"]}
