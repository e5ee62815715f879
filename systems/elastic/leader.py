"""The leader's server: a thread in every worker that listens, and leads while it is elected.

All inputs reach the coordinator through this one thread: workers' messages over their
connections, and the driver's requests, which any worker passes on to the leader.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from systems.elastic.actions import Action, Tell
from systems.elastic.coordination_log import stamped
from systems.elastic.coordinator import Coordinator
from systems.elastic.recovery import Halted, Membership
from systems.elastic.stops import Stop
from systems.runtime.control import Message
from systems.runtime.control_server import Connection, ControlServer
from systems.runtime.heartbeat import HeartbeatWatch

IDLE_WAIT_S = 0.5
EARLY_WAIT_S = 0.002
EARLY_PATIENCE_S = 1.0
"""A worker may learn who was elected a moment before the elected one does."""


class LeaderServer:
    """Listens from the start, so that its address is known; serves from ``lead`` on."""

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
            address: of this machine.
            worker: in which this server is, and which therefore lives as long as it beats.
            job_id: of the workers that may connect.
            token: which they know.
            to_driver: takes messages for the driver.
            heartbeat_s: time between two beats.
            hang_timeout_s: longest silence.
            arrival_s: within which workers notice a new leader, at the longest.
            note: called with every message of a worker as it is handled.

        Raises:
            OSError: the address is none of this machine's.
        """
        self._worker = worker
        self._to_driver = to_driver
        self._heartbeat_s = heartbeat_s
        self._arrival_s = arrival_s
        self._note = note
        self._watch = HeartbeatWatch(hang_timeout_s)
        self._coordinator: Coordinator | None = None
        self._deposed: Coordinator | None = None
        """Of the term before, until this thread has seen that it is over."""
        self._connections: dict[str, Connection] = {}
        self._leaving: set[str] = set()
        self._early: list[tuple[Connection, Message]] = []
        """What workers said that knew of this leader before it did."""
        self._accused: set[str] = set()
        self._closed = threading.Event()
        self._server = ControlServer(
            address,
            lambda asked: token if asked == job_id else None,
            self._on_message,
            self._on_closed,
        )
        self.address, self.port = self._server.address
        self._thread = threading.Thread(target=self._serve, name="leader", daemon=True)
        self._thread.start()

    def lead(self, coordinator: Coordinator) -> None:
        """Begin a term; called before any worker can know of it."""
        self._deposed = self._coordinator or self._deposed  # it may follow itself
        self._coordinator = coordinator

    def step_down(self) -> None:
        """Someone else leads: hang up on everybody, who will then look for the leader."""
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
                if connection.is_open:  # else it has come again, or follows another
                    self._on_message(connection, message)
            now = time.monotonic()
            if now >= beat_at:
                beat_at = now + self._heartbeat_s
                for worker, connection in list(self._connections.items()):
                    if worker == self._worker:
                        self._watch.note(worker, now)
                    else:  # it answers with the same
                        self._server.send(connection, stamped({"kind": "beat"}))
                self._accuse(now)
        self._server.close()

    def _hang_up(self) -> None:
        """This worker does not lead: let those go that think so, but for the very latest."""
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
        """The term before is over: the driver waits no more for a recovery that it had begun."""
        deposed, self._deposed = self._deposed, None
        if deposed is not None and deposed.recovery is not None:
            self._to_driver({"kind": "deposed"})

    def _accuse(self, now: float) -> None:
        """Tell the driver who has been silent for too long; it kills them for certain.

        Who has not come to this leader may have stopped before it could: it has a while longer.
        """
        coordinator = self._coordinator
        missing = coordinator.missing() - self._leaving if coordinator is not None else set()
        for worker in missing:
            if not self._watch.expects(worker):
                self._watch.note(worker, now + self._arrival_s)
        for worker, silent_s in self._watch.silent(now, self._heartbeat_s).items():
            if (worker in self._connections or worker in missing) and worker not in self._accused:
                self._accused.add(worker)
                self._to_driver({"kind": "suspect", "worker": worker, "silent_s": silent_s})

    def _on_message(self, connection: Connection, message: Message) -> None:
        self._end_term()
        coordinator = self._coordinator
        greeting = connection.greeting
        assert greeting is not None
        is_early = any(early is connection for early, _ in self._early)
        if coordinator is None or is_early:
            if message is greeting or is_early:
                self._early.append((connection, message))
            else:
                self._server.close_connection(connection)
            return
        self._note(message)
        worker = greeting["worker"]
        if message is greeting:
            self._connections[worker] = connection
            self._leaving.discard(worker)  # it may have left this leader in an earlier term
        self._watch.note(worker, time.monotonic())
        self._act(self._input(coordinator, worker, message))

    def _input(self, coordinator: Coordinator, worker: str, message: Message) -> list[Action]:
        match message["kind"]:
            case "greeting":
                return coordinator.registered(worker, message)
            case "adjust":
                return coordinator.adjust(message)
            case "withdraw":
                attempt = message["attempt"]
                return coordinator.withdraw(message["change_id"], message["reason"], attempt)
            case "prepared":
                return coordinator.prepared(worker, message["address"], message["port"])
            case "stopped":
                at = Stop(message["generation"], message["change_id"], message["step"])
                return coordinator.stopped(worker, at, goes_on=message["goes_on"])
            case "built":
                return coordinator.built(worker, message["generation"])
            case "meeting_failed":
                return coordinator.meeting_failed(worker, message["generation"], message["reason"])
            case "caught_up":
                return coordinator.caught_up(worker, message["generation"])
            case "switched":
                membership = Membership.from_message(message)
                generation, change_id = message["generation"], message["change_id"]
                return coordinator.switched(worker, generation, membership, change_id)
            case "halted":
                return coordinator.halted(worker, message["number"], _halted(message))
            case "lost":
                return coordinator.lost(message["workers"], message["parted"])
            case "bye":
                self._leaving.add(worker)
                self._watch.forget(worker)
                return coordinator.left(worker)
        return []

    def _on_closed(self, connection: Connection) -> None:
        greeting = connection.greeting
        if greeting is None:
            return
        worker = greeting["worker"]
        self._watch.forget(worker)
        if self._connections.get(worker) is not connection:
            return
        del self._connections[worker]
        coordinator = self._coordinator
        if coordinator is None or self._closed.is_set() or worker in self._leaving:
            return
        # Its process has ended, or its connection alone: the driver makes certain.
        if worker not in self._accused:
            self._accused.add(worker)
            self._to_driver({"kind": "suspect", "worker": worker, "silent_s": 0.0})
        self._act(coordinator.lost([worker]))

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Tell):
                if action.worker in self._connections:
                    self._server.send(self._connections[action.worker], stamped(action.message))
            else:
                self._to_driver(action.message)


def _halted(message: Message) -> Halted:
    return Halted(
        message["generation"],
        message["step"],
        message["address"],
        message["port"],
        message["outcome"],
        Membership.from_message(message),
        message["change_id"],
        tuple(message["newcomers"]),
    )
