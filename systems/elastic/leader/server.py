"""Leader's server: a thread in every worker that listens, and leads while the worker is elected.

All inputs reach the ``Coordinator`` on this one thread. They are workers' messages over their
connections, and the driver's requests, which the leading worker passes on to its own server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from systems.elastic.leader.actions import Action, Tell
from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.leader.paused_workers import Stop
from systems.elastic.wire.coordination_log import stamped
from systems.elastic.wire.messages import (
    LEADER_CHANNELS,
    Adjust,
    Bye,
    CaughtUp,
    Deaths,
    Deposed,
    Entered,
    FollowerBeat,
    GroupBuilt,
    HaltedAt,
    LeaderBeat,
    LeaderGreeting,
    MeetingFailed,
    Prepared,
    StoppedFor,
    Suspect,
    Withdraw,
)
from systems.runtime.wire.control_server import Admission, Connection, ControlServer
from systems.runtime.wire.heartbeat import HeartbeatWatch
from systems.runtime.wire.protocol import ControlError, Message, kind_of

IDLE_WAIT_S = 0.5
EARLY_WAIT_S = 0.002
"""Seconds between two checks for a term that begins, while early messages wait for it."""
EARLY_PATIENCE_S = 1.0
"""Seconds that a worker may wait here if it hears of an election before the elected worker."""


class LeaderServer:
    """Server that listens from the start, so that its address is known; leads after ``lead``."""

    def __init__(
        self,
        address: str,
        worker: str,
        job_id: str,
        token: str,
        to_driver: Callable[[Message], None],
        heartbeat_s: float,
        hang_timeout_s: float,
        arrival_s: float,
        note: Callable[[Message], None] = lambda message: None,
    ) -> None:
        """Listen on a free port of ``address``.

        Args:
            address: address of this machine.
            worker: name of this worker; while the server beats, the worker counts as alive.
            job_id: job of the workers that may connect.
            token: secret that these workers show.
            to_driver: sends a message to the driver.
            heartbeat_s: time between two beats.
            hang_timeout_s: longest silence of a worker.
            arrival_s: longest time in which workers notice a new leader.
            note: called with every message of a worker when it is handled.

        Raises:
            OSError: the address is not one of this machine's.
        """
        self._worker = worker
        self._to_driver = to_driver
        self._heartbeat_s = heartbeat_s
        self._arrival_s = arrival_s
        self._note = note
        self._watch = HeartbeatWatch(hang_timeout_s)
        self._coordinator: Coordinator | None = None
        self._deposed: Coordinator | None = None
        """Coordinator of the term before, until the server's thread has ended that term."""
        self._connections: dict[str, Connection] = {}
        self._leaving: set[str] = set()
        self._early: list[tuple[Connection, Message]] = []
        """Messages of workers that knew of this leader before it did itself."""
        self._accused: set[str] = set()
        self._closed = threading.Event()
        admission = Admission(token, LEADER_CHANNELS)
        self._server = ControlServer(
            address,
            lambda asked: admission if asked == job_id else None,
            self._on_message,
            self._on_closed,
        )
        self.address, self.port = self._server.address
        self._thread = threading.Thread(target=self._serve, name="leader", daemon=True)
        self._thread.start()

    def lead(self, coordinator: Coordinator) -> None:
        """Begin a term; to be called before this worker follows itself as leader."""
        self._deposed = self._coordinator or self._deposed  # a worker may follow itself as leader
        self._coordinator = coordinator

    def step_down(self) -> None:
        """End the term, since another worker leads; the server's thread then closes connections."""
        coordinator, self._coordinator = self._coordinator, None
        self._deposed = coordinator or self._deposed

    def close(self) -> None:
        """End the thread and every connection."""
        self._closed.set()

    def _serve(self) -> None:
        beat_at = 0.0
        while not self._closed.is_set():
            is_leading = self._coordinator is not None
            wait_s = max(0.0, beat_at - time.monotonic()) if is_leading else IDLE_WAIT_S
            self._server.wait(EARLY_WAIT_S if self._early else wait_s)
            if self._coordinator is None:  # asked again: a term may have begun meanwhile
                self._hang_up()
                continue
            early, self._early = self._early, []
            for connection, message in early:
                if connection.is_open:  # else the worker connected again or follows another
                    self._on_message(connection, message)
            now = time.monotonic()
            if now >= beat_at:
                beat_at = now + self._heartbeat_s
                for worker, connection in list(self._connections.items()):
                    if worker == self._worker:
                        self._watch.note(worker, now)
                    else:  # the worker answers it
                        self._server.send(connection, stamped(LeaderBeat()))
                self._accuse(now)
        self._server.close()

    def _hang_up(self) -> None:
        """Close workers' connections, since this one does not lead; keep new ones for a moment."""
        self._end_term()
        self._watch.rest()
        for connection in list(self._connections.values()):
            self._server.close_connection(connection)
        now = time.monotonic()
        for connection, _ in self._early:
            if now - connection.since > EARLY_PATIENCE_S:
                self._server.close_connection(connection)
        self._early = [entry for entry in self._early if entry[0].is_open]

    def _end_term(self) -> None:
        """End the term before: the driver need not wait for a recovery that it had begun."""
        deposed, self._deposed = self._deposed, None
        if deposed is not None and deposed.recovery is not None:
            self._to_driver(Deposed())

    def _accuse(self, now: float) -> None:
        """Report workers that were silent for too long to the driver, which kills them.

        A worker that has not connected to this leader may have hung before it could. It has
        ``arrival_s`` more before it counts as silent.
        """
        coordinator = self._coordinator
        missing = coordinator.missing() - self._leaving if coordinator is not None else set()
        for worker in missing:
            if not self._watch.expects(worker):
                self._watch.note(worker, now + self._arrival_s)
        for worker, silent_s in self._watch.silent(now, self._heartbeat_s).items():
            if (worker in self._connections or worker in missing) and worker not in self._accused:
                self._accused.add(worker)
                self._to_driver(Suspect(worker=worker, silent_s=silent_s))

    def _on_message(self, connection: Connection, message: Message) -> None:
        self._end_term()
        coordinator = self._coordinator
        greeting = connection.greeting
        assert isinstance(greeting, LeaderGreeting)
        is_early = any(early is connection for early, _ in self._early)
        if coordinator is None or is_early:
            if message is greeting or is_early:
                self._early.append((connection, message))
            else:
                self._server.close_connection(connection)
            return
        self._note(message)
        worker = greeting.worker
        if message is greeting:
            self._connections[worker] = connection
            self._leaving.discard(worker)  # it may have left this leader in an earlier term
        self._watch.note(worker, time.monotonic())
        self._act(self._input(coordinator, worker, message))

    def _input(self, coordinator: Coordinator, worker: str, message: Message) -> list[Action]:
        match message:
            case LeaderGreeting():
                return coordinator.registered(worker, message.status)
            case FollowerBeat():
                return []
            case Adjust():
                return coordinator.adjust(message)
            case Withdraw():
                return coordinator.withdraw(message.change_id, message.reason, message.attempt)
            case Prepared():
                return coordinator.prepared(worker, message.address, message.port)
            case StoppedFor():
                at = Stop(message.generation, message.change_id, message.step)
                return coordinator.stopped(worker, at, goes_on=message.goes_on)
            case GroupBuilt():
                return coordinator.built(worker, message.generation)
            case MeetingFailed():
                return coordinator.meeting_failed(worker, message.generation, message.reason)
            case CaughtUp():
                return coordinator.caught_up(worker, message.generation)
            case Entered():
                generation, change_id = message.generation, message.change_id
                return coordinator.switched(worker, generation, message.membership, change_id)
            case HaltedAt():
                return coordinator.halted(worker, message.number, message.report)
            case Deaths():
                return coordinator.lost(message.workers, message.parted)
            case Bye():
                self._leaving.add(worker)
                self._watch.forget(worker)
                return coordinator.left(worker)
            case _:
                raise ControlError(f"a leader was sent {kind_of(message)!r}")

    def _on_closed(self, connection: Connection) -> None:
        greeting = connection.greeting
        if not isinstance(greeting, LeaderGreeting):
            return
        worker = greeting.worker
        self._watch.forget(worker)
        if self._connections.get(worker) is not connection:
            return
        del self._connections[worker]
        coordinator = self._coordinator
        if coordinator is None or self._closed.is_set() or worker in self._leaving:
            return
        # Perhaps only the connection has ended, so the driver kills the process to be certain.
        if worker not in self._accused:
            self._accused.add(worker)
            self._to_driver(Suspect(worker=worker, silent_s=0.0))
        self._act(coordinator.lost([worker]))

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Tell):
                if action.worker in self._connections:
                    self._server.send(self._connections[action.worker], stamped(action.message))
            else:
                self._to_driver(action.message)
