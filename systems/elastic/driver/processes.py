"""Driver's record of an elastic job's processes: its workers and its store.

``ProcessTable`` starts the processes and sends each worker its order once the store's port is
known. The table knows which workers have left, failed or died. It decides nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.contracts.process import Exit
from systems.elastic.driver.launch import STORE, ElasticProcesses
from systems.elastic.wire.messages import MemberGreeting
from systems.runtime.driver.beats import (
    DRIVER,
    LEAST_SILENCE_S,
    Beats,
    after_silence,
    write_accusation,
)
from systems.runtime.driver.job_protocol import IDLE_WAIT_S
from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.heartbeat import HeartbeatWatch
from systems.runtime.wire.messages import Left, StoreAt
from systems.runtime.wire.protocol import Message
from systems.runtime.wire.step_log import LineWriter

FENCE_AFTER_S = 0.1
"""Seconds that a process may take to end after its connection has ended.

Then it is killed, since the driver could no longer tell it anything.
"""


@dataclass(slots=True)
class Process:
    """Process of a worker or of the store. Times are on ``time.monotonic``."""

    name: str
    slot: int
    handle: int
    spawned_at: float
    connection: Connection | None = None
    ordered_at: float = 0.0
    left: Left | None = None
    """Message of the process at the end of its last step; None before that."""
    failure: str = ""
    """Error that the process reported before it gave up; empty if there is none."""
    is_collective: bool = False
    """True if the failure looks like a consequence of another worker's death."""
    has_failed_of_machine: bool = False
    """True if the process reported an error of the disk or of the operating system."""
    vanished_at: float | None = None
    """Time at which the connection ended, if the driver had not yet seen the process end."""
    end: Exit | None = None
    ended_at: float = math.inf
    """Time at which the driver noticed the end of the process."""
    is_dead: bool = False
    """True if the process ended, or is about to end, without leaving in order."""
    silent_s: float = 0.0
    """Seconds of silence for which the driver killed the process; 0 if the driver did not."""
    is_killed: bool = False
    """True if the driver killed the process for silence or for an ended connection."""
    is_dismissed: bool = False
    """True if the driver killed the process as superfluous; its end is then no failure."""

    @property
    def has_left(self) -> bool:
        """Return whether it left in order, and has not failed since."""
        return self.left is not None and (self.end is None or self.end.returncode == 0)


@dataclass
class ProcessTable:
    """Processes of one elastic job, as the driver knows them."""

    processes: ElasticProcesses
    order_of: Callable[[Process, tuple[str, int]], Message]
    """Returns the order of a worker, given the store's address and port."""
    workers: dict[str, Process] = field(default_factory=dict)
    store: Process | None = None
    store_at: tuple[str, int] | None = None
    num_stores: int = 0
    """Number of store processes started since the last one that served."""

    def __post_init__(self) -> None:
        hang_timeout_s = self.processes.options.hang_timeout_s
        self._store_watch = HeartbeatWatch(max(LEAST_SILENCE_S, hang_timeout_s))
        self._beats = Beats(hang_timeout_s, self.processes.services.send)
        # Kept, since it holds back lines that a full disk refuses and writes them later.
        self._accusations = LineWriter(self.processes.order.job_dir / "accusations.jsonl")

    # Processes.

    def spawn(self, worker: str, slot: int) -> None:
        """Start a worker's process; the launcher's errors are raised."""
        spec = self.processes.worker_spec(worker, slot)
        at = time.monotonic()
        handle = self.processes.services.launch(spec)
        self.workers[worker] = Process(worker, slot, handle, at)

    def spawn_store(self, number: int, slot: int) -> None:
        """Start the store process, or one in its place; the launcher's errors are raised."""
        self.num_stores += 1
        self.store_at = None
        at = time.monotonic()
        # A store that hangs before it serves is noticed too, after its start time-out.
        self._store_watch.note(STORE, at + self.processes.options.runtime.start_timeout_s)
        handle = self.processes.services.launch(self.processes.store_spec(number, [slot]))
        self.store = Process(STORE, slot, handle, at)

    def greeted(self, connection: Connection) -> bool:
        """Send a connected process its order. Return False if no such process is awaited."""
        greeting = connection.greeting
        name = greeting.worker if isinstance(greeting, MemberGreeting) else STORE
        process = self.find(name)
        if process is None or process.connection is not None or process.end is not None:
            return False
        process.connection = connection
        if process is self.store:
            services = self.processes.services
            services.send(connection, self.processes.store_order([process.slot]))
        else:
            self._order(process)
        return True

    def store_ready(self, address: str, port: int) -> None:
        """Send the store's address to all workers, with their order to those that wait for one."""
        self.store_at = (address, port)
        self.num_stores = 0
        self.store_lives()
        for process in self.workers.values():
            if process.ordered_at:
                self.tell([process.name], StoreAt(address=address, port=port))
            else:
                self._order(process)

    def store_lives(self) -> None:
        """Record a sign of life of the store."""
        self._store_watch.note(STORE, time.monotonic())

    def exited(self, process: Process, end: Exit) -> None:
        """Record a process's end: read what it still sent, then close its connection."""
        process.end, process.ended_at = end, time.monotonic()
        connection = process.connection
        if connection is not None:
            server = self.processes.services.server
            server.drain(connection)
            server.close_connection(connection)

    def kill(self, processes: Iterable[Process]) -> None:
        """Kill the processes that have not ended.

        A process whose connection has ended is left to ``fence``: it is about to end, and its own
        reason should be reported.
        """
        for process in processes:
            if process.end is None and process.vanished_at is None:
                self.processes.services.kill(process.handle)

    def accuse(self, accused: Process, accuser: str, silent_s: float) -> None:
        """Kill a worker for silence or for an ended connection, and log the first such silence.

        Args:
            accused: the worker's process.
            accuser: name of the worker that missed it, or the driver's.
            silent_s: seconds of silence; 0: its connection has ended.
        """
        is_running = accused.end is None and accused.vanished_at is None
        self.kill([accused])
        accused.is_killed = accused.is_killed or is_running
        at = time.monotonic()
        if silent_s > 0 and is_running and not accused.silent_s:
            accused.silent_s = silent_s
            write_accusation(self._accusations, at, accused.name, accuser, silent_s)

    def look_for_silence(self, now: float, names: Callable[[], Iterable[str]]) -> None:
        """Kill those of these workers that hang: the process exists but does not answer."""

        def needed() -> dict[str, Connection]:
            processes = [self.workers[name] for name in names()]
            return {p.name: p.connection for p in processes if p.connection and p.end is None}

        for name, silent_s in self._beats.silent(now, needed).items():
            self.accuse(self.workers[name], DRIVER, silent_s)

    def dismiss(self, names: Iterable[str]) -> None:
        """Kill workers that the job does not want any more; their ends count as ordered."""
        for name in names:
            self.workers[name].is_dismissed = True
            self.kill([self.workers[name]])

    def fence(self, now: float) -> None:
        """Kill processes whose connection ended ``FENCE_AFTER_S`` ago, and a store that hangs."""
        for process in self.all():
            vanished_at = process.vanished_at
            if (
                process.end is None
                and vanished_at is not None
                and now > vanished_at + FENCE_AFTER_S
            ):
                self.processes.services.kill(process.handle)
        if self._store_watch.silent(now, IDLE_WAIT_S) and self.store is not None:
            self._store_watch.forget(STORE)  # until another store is started
            self.kill([self.store])

    # Messages.

    def tell(self, names: Iterable[str], message: Message) -> None:
        """Send a message to workers that have their order; the order tells the others later."""
        for name in names:
            process = self.workers[name]
            if process.connection is not None and process.ordered_at:
                self.processes.services.send(process.connection, message)

    def tell_all(self, message: Message) -> None:
        """Send a message to every worker that lives and is wanted."""
        alive = (p for p in self.workers.values() if p.end is None)
        self.tell([p.name for p in alive if not (p.is_dead or p.is_dismissed)], message)

    def _order(self, process: Process) -> None:
        if process.connection is None or self.store_at is None:
            return
        process.ordered_at = time.monotonic()
        order = self.order_of(process, self.store_at)
        self.processes.services.send(process.connection, order)

    # What is known.

    def all(self) -> list[Process]:
        """Return every process that was started and not replaced since."""
        return [*self.workers.values(), *([self.store] if self.store is not None else [])]

    def find(self, name: str) -> Process | None:
        """Return the process of this name, if there is one."""
        return self.store if name == STORE else self.workers.get(name)

    def of_handle(self, handle: int) -> Process | None:
        """Return the process with this launcher handle, if there is one."""
        return next((process for process in self.all() if process.handle == handle), None)

    def living(self, *, or_left: bool = False) -> list[str]:
        """Return the living workers that are wanted; with ``or_left``, also any that have left."""
        return [
            process.name
            for process in self.workers.values()
            if not (process.is_dead or process.is_dismissed or process.end)
            and (or_left or not process.left)
        ]

    def are_gone(self, names: Iterable[str]) -> bool:
        """Return whether the processes of these workers have ended."""
        return all(self.workers[name].end is not None for name in names)

    @property
    def is_losing(self) -> bool:
        """Return whether a process has lost its connection, and its end is not yet noticed."""
        return any(
            process.vanished_at is not None and process.end is None for process in self.all()
        )

    @property
    def is_of_machine(self) -> bool:
        """Return whether one of the processes failed because of the machine."""
        return any(
            p.has_failed_of_machine or (p.end is not None and p.end.of_machine) for p in self.all()
        )

    @property
    def is_killed_from_outside(self) -> bool:
        """Return whether a process was killed from outside the run.

        Kills by the driver and by a fault that the run injected do not count.
        """
        return any(p.end is not None and p.end.is_kill_from_outside for p in self.all())

    def end_of(self, process: Process) -> str:
        """Return for the user how a worker ended."""
        end = process.end.reason if process.end else "its connection ended"
        said = process.failure or after_silence(end, process.silent_s)
        return f"worker {process.name}: {said}"

    def deaths(self, workers: Iterable[str] | None = None) -> str:
        """Return for the user each death among these workers (None: all) and the logs' folder."""
        named = self.workers if workers is None else set(workers)
        dead = [p for p in self.workers.values() if p.is_dead and p.name in named]
        return "; ".join([*map(self.end_of, dead), self.processes.where])

    def missing(self) -> str:
        """Return for the user what a start waits for: workers, the store, or a first step."""
        silent = [name for name, process in self.workers.items() if process.connection is None]
        if silent:
            return f"workers {', '.join(silent)} of {len(self.workers)} have not connected"
        if self.store_at is None:
            return "the job's store does not answer"
        return f"all {len(self.workers)} workers have connected but do not train"
