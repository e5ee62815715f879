"""One worker's part in the membership: it takes part in elections and obeys the leader.

All this happens on threads other than the training thread, so that messages are handled during a
step. The facts that the worker told one leader are told to the next one again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from systems.elastic.election.election import Election
from systems.elastic.election.etcd_keystore import open_etcd
from systems.elastic.election.keystore import KeyStore
from systems.elastic.election.tcp_keystore import TcpKeyStore
from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.leader.server import LeaderServer
from systems.elastic.wire.coordination_log import CoordinationLog, stamped
from systems.elastic.wire.heartbeat import LeaderWatch
from systems.elastic.wire.messages import (
    FROM_LEADER,
    Adjust,
    Announce,
    Bye,
    Cancel,
    Dismissed,
    Entered,
    FollowerBeat,
    Halt,
    LeaderBeat,
    LeaderGreeting,
    Leads,
    LeadsNot,
    MemberStatus,
    Pause,
    Prepared,
    Resume,
    Stamped,
    Suspect,
    Topology,
    WhoLeads,
    Withdraw,
    WorkersLost,
)
from systems.elastic.wire.order import SCRIPT, ElasticOrder
from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.resend_buffer import ResendBuffer
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import MayExit, SetTarget, Stop, StoreAt
from systems.runtime.wire.protocol import ControlError, Message, kind_of

LEADER_KEY = "leader"


@dataclass(frozen=True, slots=True)
class OfLeader:
    """Message of a leader, or the end of the connection to it, in the inbox of its follower."""

    line: int
    """Number of the connection that it came over."""
    message: Message | None
    """The message; None: the connection has ended."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Callbacks of the training side for leader messages, run on the membership's thread."""

    topology: Callable[[Topology], None]
    cancel: Callable[[int], None]
    halt: Callable[[int], None]
    dismissed: Callable[[], None]
    leads: Callable[[bool], None]
    """Called with whether this worker leads from now on, on any of the membership's threads."""


class LeaderClient:
    """Membership of one worker in its job.

    The training thread reads the attributes. ``stop``, ``target_step``, ``announced`` (generation
    to switch to; 0: none) and ``pause`` (id of the change to stop for, plus 1; 0: none) are
    commands that the first worker puts into its words. ``directives`` holds the messages that a
    worker waits for while it does not train: ``Halt``, ``Resume``, ``Dismissed``, ``MayExit``,
    ``Announce`` and ``Cancel``.
    """

    def __init__(
        self, order: ElasticOrder, token: str, driver: ControlClient, handlers: Handlers
    ) -> None:
        self.stop = False
        self.target_step = order.target_step
        self.announced = 0
        self.pause = 0
        self.standing = (order.generation, order.membership)
        """Number of the present generation, and its membership."""
        self.directives: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._order = order
        self._token = token
        self._driver = driver
        self._handlers = handlers
        self._highest = order.generation
        self._change_id: int | None = None
        """Id of the last change that this worker went through, if any."""
        self._receiver: tuple[str, int] | None = None
        self._facts = ResendBuffer()
        self._request: Adjust | Withdraw | None = None
        """Driver's request that came while this worker led but had not greeted itself yet."""
        self._lock = threading.Lock()
        self._obeying = threading.Lock()
        """Lock held while a leader's message is obeyed, and while a new leader's greeting is made.

        To be taken before ``_lock`` if both are needed: the other order could deadlock.
        """
        self._line = 0
        self._leader: ControlClient | None = None
        self._leader_worker = ""
        self._leader_address = ""
        self._leads = False
        self._term = 0
        """Number of times that this worker was elected."""
        self._leader_watch = LeaderWatch(order.hang_timeout_s, order.heartbeat_s)
        self._is_accused = False
        self._is_closed = False
        self.store = (order.store_address, order.store_port)
        self._log = CoordinationLog()
        self._server = LeaderServer(
            order.address,
            order.worker,
            order.job_id,
            token,
            self._tell_driver,
            order.heartbeat_s,
            order.hang_timeout_s,
            order.leader_expiry_s,
            self._log.note,
        )
        self._me = f"{self._server.address}:{self._server.port}/{order.worker}"
        self._election = Election(
            self._make_store,
            LEADER_KEY,
            self._me,
            expiry_s=order.leader_expiry_s,
            refresh_s=order.leader_refresh_s,
            on_leader=self._on_leader,
            is_candidate=not order.joining,
        )
        self._thread = threading.Thread(target=self._listen, name="membership", daemon=True)
        self._thread.start()

    # Calls of the training side.

    def tell(self, message: Stamped) -> None:
        """Tell the leader and every later one a fact; a later message of its class replaces it."""
        with self._lock:
            self._facts.note(message)
            self._send(message)

    def forget(self, kind: type[Stamped]) -> None:
        """Stop telling later leaders this worker's message of a class, which is no longer true."""
        with self._lock:
            self._facts.forget(kind)

    def prepared(self, address: str, port: int) -> None:
        """Tell the leader that this worker can receive a state at this address."""
        self._receiver = (address, port)
        self.tell(Prepared(address=address, port=port))

    def switched(
        self, generation: int, membership: Membership, change_id: int | None = None
    ) -> None:
        """Tell the leader that this worker has entered a generation.

        Args:
            generation: its number.
            membership: its members and their global batch.
            change_id: the last change that this worker went through; None: none.
        """
        self.standing = (generation, membership)  # one assignment: other threads read both
        self.announced = 0
        self.pause = 0
        self._highest = max(self._highest, generation)
        self._change_id = change_id
        with self._lock:
            self._facts.entered(generation, membership.members)
        self.tell(Entered(generation=generation, membership=membership, change_id=change_id))
        self._election.stand()

    def resign(self) -> None:
        """Give up the leadership for good, so that another worker leads."""
        self._step_down()
        self._election.resign()

    def leave(self, *, hands_over: bool) -> None:
        """Leave in order: the leader is told first, so that this is not taken for a death.

        Args:
            hands_over: whether other workers go on, so that one of them has to lead.
        """
        self._is_closed = True
        if hands_over:
            self.resign()
        with self._lock:
            self._send(Bye())
        self._election.close()
        self._server.close()

    def write_log(self) -> None:
        """Write the coordination log; to be called once this worker has left."""
        self._log.write(self._order, self._election)

    # Messages of the leader and the driver.

    def _listen(self) -> None:
        while not self._is_closed:
            with suppress(queue.Empty):
                wait_s = self._leader_watch.until_look_s(time.monotonic())
                self._hear(self._driver.inbox.get(timeout=wait_s))
            silent_s = self._leader_watch.silent_s(time.monotonic())
            if silent_s is not None:
                self._accuse_leader(silent_s)

    def _receive(self, line: int, message: Message) -> None:
        """Answer a leader's beat at once, on the reading thread, and queue other messages."""
        if not isinstance(message, LeaderBeat):
            self._driver.inbox.put(OfLeader(line, message))
            return
        with self._lock:
            if line == self._line:
                self._leader_watch.note(time.monotonic())
                self._log.note(message)
                self._send(FollowerBeat())

    def _accuse_leader(self, silent_s: float) -> None:
        if self._leader is None or self._is_accused or self._leader_worker == self._order.worker:
            return
        self._is_accused = True
        self._tell_driver(Suspect(worker=self._leader_worker, silent_s=silent_s))

    def _hear(self, heard: Message | OfLeader) -> None:
        """Handle what has come, unless it is of a leader before the one greeted last.

        The greeting tells the new leader what this worker has obeyed so far. The new leader could
        not know of a former leader's message that is obeyed after the greeting.
        """
        with self._obeying:
            if not isinstance(heard, OfLeader):
                self._dispatch(heard)
            elif heard.line == self._line:
                self._dispatch(heard.message)

    def _dispatch(self, message: Message | None) -> None:
        """Handle a message of the driver or the leader; None: the leader's connection has ended."""
        self._leader_watch.note(time.monotonic())
        if message is None:
            self._leader_gone()
            return
        self._log.note(message)
        match message:
            case SetTarget():
                self.target_step = message.target_step
            case Stop():
                self.stop = True
            case Adjust() | Withdraw():
                self._asked(message)
            case WorkersLost():
                self._lost(message.workers)
            case StoreAt():
                self.store = (message.address, message.port)
                if not self._order.etcd_endpoints:
                    self._election.replace_store(self._make_store)
            case WhoLeads():
                if self._leads:
                    self._say_that_it_leads()
            case Announce():
                self.announced = message.generation
                self.directives.put(message)
            case Pause():
                self.pause = message.change_id + 1
            case Topology():
                self._highest = max(self._highest, message.generation)
                self._handlers.topology(message)
            case Cancel():
                if self.pause == message.change_id + 1:
                    self.pause = 0
                if self.announced == message.generation:
                    self.announced = 0
                self._handlers.cancel(message.generation)
                self.directives.put(message)
            case Halt():
                self._highest = max(self._highest, message.generation)
                self._handlers.halt(message.generation)
                self.directives.put(message)
            case Dismissed():
                self._handlers.dismissed()
                self.directives.put(message)
            case Resume() | MayExit():
                self.directives.put(message)
            case _:
                raise ControlError(f"a worker that trains was sent {kind_of(message)!r}")

    def _asked(self, message: Adjust | Withdraw) -> None:
        """Pass a driver's request on, if this worker leads in the term that the driver means.

        Otherwise the request is dropped, since the driver asks again in each new term.
        """
        if not self._leads:
            self._tell_driver(LeadsNot())
            return
        if isinstance(message, Adjust) and self._order.workload == SCRIPT:
            batch = self.standing[1].global_batch
            target = msgspec.structs.replace(message.membership, global_batch=batch)
            message = msgspec.structs.replace(message, membership=target)
        with self._lock:
            if self._leader is None:
                self._request = message  # its term is checked when it is sent
            elif message.term == self._term:
                self._send(message)

    def _lost(self, workers: Sequence[str]) -> None:
        with self._lock:
            self._send(self._facts.lost(workers))
        if self._leader_worker in workers:
            self._leader_gone()

    def _leader_gone(self) -> None:
        address = self._leader_address
        self._follow("", "")
        self._election.presume_dead(address)

    def _follow(self, worker: str, address: str) -> int:
        """Drop the connection to the former leader and accept only a new one's messages.

        Args:
            worker: the new leader; empty: none is known.
            address: its address in the election.

        Returns:
            Number of the connection over which its messages will come.
        """
        with self._lock:
            if self._leader is not None:
                self._leader.close()
            self._leader = None
            self._leader_worker = worker
            self._leader_address = address
            self._line += 1
            return self._line

    # Election of the leader.

    def _make_store(self) -> KeyStore:
        order = self._order
        if order.etcd_endpoints:
            return open_etcd(order.etcd_endpoints, order.etcd_prefix, order.leader_expiry_s)
        return TcpKeyStore(*self.store)

    def _on_leader(self, address: str) -> None:
        """Follow a new leader, or begin to lead; called on the election's thread."""
        generation, membership = self.standing
        if address == self._me:
            coordinator = Coordinator(
                membership,
                generation,
                transfer=self._order.transfer,
                recovery=self._order.recovery,
                stops_first=self._order.stops_first,
            )
            self._server.lead(coordinator)
            self._handlers.leads(True)
        else:
            self._step_down()
        place, _, leader = address.rpartition("/")
        host, _, port = place.rpartition(":")
        with self._obeying:
            with self._lock:
                self._send(Bye())  # the former leader may not know yet
            line = self._follow(leader, address)
            if address == self._me:
                self._leads = True
                self._term += 1
                self._say_that_it_leads()
            status = MemberStatus(
                members=membership.members,
                highest=self._highest,
                change_id=self._change_id,
                announced=self.announced,
                receiver=self._receiver,
            )
            greeting = LeaderGreeting(
                job_id=self._order.job_id,
                token=self._token,
                worker=self._order.worker,
                status=status,
            )
        inbox = self._driver.inbox
        gone = OfLeader(line, None)
        try:
            client = ControlClient(
                host,
                int(port),
                greeting,
                FROM_LEADER,
                on_message=partial(self._receive, line),
                on_end=lambda: inbox.put(gone),
                sender=f"leader {leader}",
            )
        except OSError:
            inbox.put(gone)
            return
        with self._lock:
            if self._line != line:  # meanwhile it died, or was said to
                with suppress(OSError):
                    client.send(Bye())
                client.close()
                return
            self._leader = client
            self._leader_watch.note(time.monotonic())
            self._is_accused = False
            for message in self._facts:
                self._send(message)
            request, self._request = self._request, None
            if request is not None and address == self._me and request.term == self._term:
                self._send(request)

    def _say_that_it_leads(self) -> None:
        self._tell_driver(Leads(term=self._term))

    def _tell_driver(self, message: Message) -> None:
        """Send the driver a message, from any thread.

        Once this worker has left, a closed connection to the driver is no error.
        """
        try:
            self._driver.send(message)
        except OSError:
            if not self._is_closed:
                raise

    def _step_down(self) -> None:
        self._leads = False
        self._server.step_down()
        self._handlers.leads(False)

    def _send(self, message: Stamped) -> None:
        """Send a message to the leader, if there is one; the caller holds ``_lock``."""
        if self._leader is None:
            return
        try:
            self._leader.send(stamped(message))
        except OSError:
            return  # the reading thread notices it too, and the next leader is told
