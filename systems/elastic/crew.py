"""The processes of one elastic job: workers that come and go, and the store beside them.

Kept by the driver's side of the job. It starts the processes, hands each its order once the
store's port is known, and knows who has left, failed or died. It decides nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.contracts.launcher import Exit
from systems.elastic.elastic_processes import STORE, ElasticProcesses
from systems.runtime.beats import (
    DRIVER,
    LEAST_SILENCE_S,
    Beats,
    after_silence,
    write_accusation,
)
from systems.runtime.control_server import Connection
from systems.runtime.driven_job import IDLE_WAIT_S
from systems.runtime.heartbeat import HeartbeatWatch
from systems.runtime.step_log import LineWriter

FENCE_AFTER_S = 0.1
"""How long a process whose connection has ended may take to end; then it is killed, since
from then on nobody could tell it anything."""


@dataclass(slots=True)
class Process:
    """One process, a worker or the store. Times are ``time.monotonic``."""

    name: str
    slot: int
    handle: int
    spawned_at: float
    connection: Connection | None = None
    ordered_at: float = 0.0
    left: Mapping[str, Any] | None = None
    """What it said when its last step had ended."""
    failure: str = ""
    """What it said before it gave up, if it did."""
    is_collective: bool = False
    """Whether the failure looks like the consequence of another's death."""
    has_failed_of_machine: bool = False
    """Whether the disk or the system refused it something, by its own words."""
    vanished_at: float | None = None
    """When its connection ended before its process was known to have ended."""
    end: Exit | None = None
    ended_at: float = math.inf
    """When its end was noticed."""
    is_dead: bool = False
    """Whether it counts as dead: it ended, or will, without leaving in order."""
    silent_s: float = 0.0
    """For how long it had been silent when it was killed for that; 0: it was not."""
    is_killed: bool = False
    """Whether that was done, whatever it was heard of last."""
    is_dismissed: bool = False
    """Whether it was killed since it is no longer wanted; its end means nothing."""

    @property
    def has_left(self) -> bool:
        """Whether it ended, or is about to, after it left in order."""
        return self.left is not None and (self.end is None or self.end.returncode == 0)


@dataclass
class Crew:
    """See the module's text."""

    processes: ElasticProcesses
    order_of: Callable[[Process, tuple[str, int]], Mapping[str, Any]]
    """The order of a worker, given where the store is."""
    workers: dict[str, Process] = field(default_factory=dict)
    store: Process | None = None
    store_at: tuple[str, int] | None = None
    num_stores: int = 0
    """Store processes started since the last that worked."""

    def __post_init__(self) -> None:
        hang_timeout_s = self.processes.options.hang_timeout_s
        self._store_watch = HeartbeatWatch(max(LEAST_SILENCE_S, hang_timeout_s))
        self._beats = Beats(hang_timeout_s, self.processes.hands.send)
        # Kept open for lines that a full disk has no room for.
        self._accusations = LineWriter(self.processes.order.job_dir / "accusations.jsonl")

    # Processes.

    def spawn(self, worker: str, slot: int) -> None:
        """Start a worker. Raises whatever the launcher raises."""
        spec = self.processes.worker_spec(worker, slot)
        at = time.monotonic()
        handle = self.processes.hands.launch(spec)
        self.workers[worker] = Process(worker, slot, handle, at)

    def spawn_store(self, number: int, slot: int) -> None:
        """Start the store process, or another one. Raises whatever the launcher raises."""
        self.num_stores += 1
        self.store_at = None
        at = time.monotonic()
        # One that stops before it serves is noticed as well, when it should have begun.
        self._store_watch.note(STORE, at + self.processes.options.runtime.start_timeout_s)
        handle = self.processes.hands.launch(self.processes.store_spec(number, [slot]))
        self.store = Process(STORE, slot, handle, at)

    def greeted(self, connection: Connection) -> bool:
        """A process has greeted. False if it is not awaited."""
        assert connection.greeting is not None
        process = self.find(connection.greeting.get("worker", ""))
        if process is None or process.connection is not None or process.end is not None:
            return False
        process.connection = connection
        if process is self.store:
            hands = self.processes.hands
            hands.send(connection, self.processes.store_order([process.slot]))
        else:
            self._order(process)
        return True

    def store_ready(self, address: str, port: int) -> None:
        """The store serves: workers that wait for their order get it, others are told."""
        self.store_at = (address, port)
        self.num_stores = 0
        self.store_lives()
        for process in self.workers.values():
            if process.ordered_at:
                self.tell([process.name], {"kind": "store", "address": address, "port": port})
            else:
                self._order(process)

    def store_lives(self) -> None:
        """The store has said something."""
        self._store_watch.note(STORE, time.monotonic())

    def exited(self, process: Process, end: Exit) -> None:
        """A process has ended: take what it still had to say, then bury it."""
        process.end, process.ended_at = end, time.monotonic()
        connection = process.connection
        if connection is not None:
            server = self.processes.hands.server
            server.drain(connection)
            server.close_connection(connection)

    def kill(self, processes: Iterable[Process]) -> None:
        """Kill those that have not ended. One that is about to is left to ``fence``, so that
        its own reason is known."""
        for process in processes:
            if process.end is None and process.vanished_at is None:
                self.processes.hands.kill(process.handle)

    def accuse(self, accused: Process, accuser: str, silent_s: float) -> None:
        """Kill a worker that another, or the driver, had heard nothing of for so long (0: its
        connection has ended). The first such kill of each is written down."""
        is_running = accused.end is None and accused.vanished_at is None
        self.kill([accused])
        accused.is_killed = accused.is_killed or is_running
        at = time.monotonic()
        if silent_s > 0 and is_running and not accused.silent_s:
            accused.silent_s = silent_s
            write_accusation(self._accusations, at, accused.name, accuser, silent_s)

    def look_for_silence(self, now: float, names: Callable[[], Iterable[str]]) -> None:
        """Kill those of these workers that have stopped without an end."""

        def needed() -> dict[str, Connection]:
            processes = [self.workers[name] for name in names()]
            return {p.name: p.connection for p in processes if p.connection and p.end is None}

        for name, silent_s in self._beats.silent(now, needed).items():
            self.accuse(self.workers[name], DRIVER, silent_s)

    def dismiss(self, names: Iterable[str]) -> None:
        """Kill workers that are no longer wanted."""
        for name in names:
            self.workers[name].is_dismissed = True
            self.kill([self.workers[name]])

    def fence(self, now: float) -> None:
        """Kill what nobody can talk to any more, and a store that has stopped without an end."""
        for process in self.all():
            vanished_at = process.vanished_at
            if (
                process.end is None
                and vanished_at is not None
                and now > vanished_at + FENCE_AFTER_S
            ):
                self.processes.hands.kill(process.handle)
        if self._store_watch.silent(now, IDLE_WAIT_S) and self.store is not None:
            self._store_watch.forget(STORE)  # until there is another
            self.kill([self.store])

    # Messages.

    def tell(self, names: Iterable[str], message: Mapping[str, Any]) -> None:
        """Send to workers that have had their order; one that has not will be told by it."""
        for name in names:
            process = self.workers[name]
            if process.connection is not None and process.ordered_at:
                self.processes.hands.send(process.connection, message)

    def tell_all(self, message: Mapping[str, Any]) -> None:
        """Tell every worker that lives and is wanted."""
        alive = (p for p in self.workers.values() if p.end is None)
        self.tell([p.name for p in alive if not (p.is_dead or p.is_dismissed)], message)

    def _order(self, process: Process) -> None:
        if process.connection is None or self.store_at is None:
            return
        process.ordered_at = time.monotonic()
        order = self.order_of(process, self.store_at)
        self.processes.hands.send(process.connection, order)

    # What is known.

    def all(self) -> list[Process]:
        """Every process that was started and has not been replaced."""
        return [*self.workers.values(), *([self.store] if self.store is not None else [])]

    def find(self, name: str) -> Process | None:
        """The process of this name."""
        return self.store if name == STORE else self.workers.get(name)

    def of_handle(self, handle: int) -> Process | None:
        """The process with this handle."""
        return next((process for process in self.all() if process.handle == handle), None)

    def living(self, *, or_left: bool = False) -> list[str]:
        """Workers that neither died nor were dismissed nor, unless ``or_left``, left."""
        return [
            process.name
            for process in self.workers.values()
            if not (process.is_dead or process.is_dismissed or process.end)
            and (or_left or not process.left)
        ]

    def are_gone(self, names: Iterable[str]) -> bool:
        """Whether the processes of these workers have ended."""
        return all(self.workers[name].end is not None for name in names)

    @property
    def is_losing(self) -> bool:
        """Whether a connection ended whose process' end was not yet noticed."""
        return any(
            process.vanished_at is not None and process.end is None for process in self.all()
        )

    @property
    def is_of_machine(self) -> bool:
        """Whether the machine failed one of the processes."""
        return any(
            p.has_failed_of_machine or (p.end is not None and p.end.of_machine) for p in self.all()
        )

    @property
    def is_killed_from_outside(self) -> bool:
        """Whether one of the processes was killed, neither by the driver nor by a fault that the
        run wanted."""
        return any(p.end is not None and p.end.is_kill_from_outside for p in self.all())

    def end_of(self, process: Process) -> str:
        """For a person: how a worker ended."""
        end = process.end.reason if process.end else "its connection ended"
        said = process.failure or after_silence(end, process.silent_s)
        return f"worker {process.name}: {said}"

    def deaths(self, workers: Iterable[str] | None = None) -> str:
        """For a person: who of these (None: of all) died, how, and where to look."""
        named = self.workers if workers is None else set(workers)
        dead = [p for p in self.workers.values() if p.is_dead and p.name in named]
        return "; ".join([*map(self.end_of, dead), self.processes.where])

    def missing(self) -> str:
        """For a person: who has not connected, or not come further."""
        silent = [name for name, process in self.workers.items() if process.connection is None]
        if silent:
            return f"workers {', '.join(silent)} of {len(self.workers)} have not connected"
        if self.store_at is None:
            return "the job's store does not answer"
        return f"all {len(self.workers)} workers have connected but do not train"
