"""Launcher of processes on several hosts, each of which has an agent."""

from __future__ import annotations

import math
import os
import secrets
import select
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from harness.contracts.process import Exit, HostEvent, ProcessSpec, Spares, SpareSpec
from systems.launchers.hosts.agent import JOB_ID
from systems.launchers.hosts.facts import differences, host_facts
from systems.launchers.hosts.lease import (
    BEAT_EVERY_S,
    CLOSE_TIMEOUT_S,
    FIRST_RETRY_S,
    LONGEST_RETRY_S,
)
from systems.launchers.hosts.link import HostLink, agent_command, lost_exit
from systems.launchers.hosts.messages import (
    CHANNELS,
    AgentGreeting,
    CloseAgent,
    DriverBeat,
    Prepare,
    SignalProcess,
    StartProcess,
)
from systems.launchers.local import PREIMPORT, SPARE_BYTES, LauncherError
from systems.runtime.wire.control_server import Admission, Connection, ControlServer

_LOOK_EVERY_S = 0.05
"""Time between two looks at the hosts, so the longest delay beyond ``LOST_AFTER_S``."""


class Hosts:
    """Launcher that starts one agent on each host and lets the agents start the processes.

    The agents connect to this process. A thread keeps their leases, because the main process may be
    busy for longer than a lease. If a host is lost, all its processes have ended, as failures of
    the machine. Another agent is then started there again and again, until one connects.
    """

    def __init__(
        self,
        command: str = "{agent}",
        bind: str = "127.0.0.1",
        advertise: str | None = None,
        preimport: Sequence[str] = PREIMPORT,
        spares: int = 1,
    ) -> None:
        """Store the settings; no process is started yet.

        Args:
            command: command that starts the agent of a host. ``{address}`` is the host's address,
                ``{agent}`` the agent's own command, ``{python}`` this interpreter.
            bind: address of this machine on which agents are awaited.
            advertise: address at which the hosts reach this machine; None: ``bind``.
            preimport: modules that the fork server of each host imports.
            spares: number of processes kept ready for each slot, if any are requested.

        Raises:
            ValueError: the number of spares is below 1, or the command cannot be filled in.
        """
        if spares < 1:
            raise ValueError(
                f"spares is {spares}; it must be >= 1 (backend.start=preimported keeps none)"
            )
        self._command = command
        self._bind = bind
        self._advertise = advertise or bind
        self._preimport = tuple(preimport)
        self._spares_per_slot = spares
        self._token = secrets.token_hex(32)
        self._links: dict[str, HostLink] = {}
        self._lost: dict[str, _LostHost] = {}
        """Hosts that were lost and have not come back."""
        self._host_events: list[HostEvent] = []
        self._ends: list[Exit] = []
        self._next_handle = 1
        # Guards all state: the thread of the leases and the driver's thread share it.
        self._lock = threading.RLock()
        self._server: ControlServer | None = None
        self._is_closing = False
        self._failure: Exception | None = None
        """Error that ended the thread of the leases; None while it runs."""
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="hosts", daemon=True)
        self._agent_command("127.0.0.1", 0)

    def open(self, preimport: Sequence[str] = ()) -> None:
        """Begin to listen, and add the modules of the run's workloads to those that are imported.

        Raises:
            LauncherError: ``bind`` is not an address of this machine.
        """
        self._preimport += tuple(name for name in preimport if name not in self._preimport)
        # Before any agent starts: a file that is edited later must count as a difference.
        host_facts()
        try:
            self._server = ControlServer(self._bind, self._admit, self._heard, self._closed)
        except OSError as error:
            raise LauncherError(
                f"cannot listen on launcher.bind={self._bind!r}: {os.strerror(error.errno or 0)};"
                " give an address of this machine"
            ) from None
        self._thread.start()

    def start(self, spec: ProcessSpec) -> int:
        """Start a process on its host; do not wait until it runs.

        Raises:
            OSError: the system cannot start the command of an agent.
        """
        with self._lock:
            handle = self._next_handle
            self._next_handle += 1
            if spec.host in self._lost:
                self._ends.append(lost_exit(handle, self._lost[spec.host].reason))
                return handle
            link = self._link(spec.host)
            link.live.add(handle)
            link.send(
                StartProcess(
                    handle=handle,
                    name=spec.name,
                    entry=spec.entry,
                    argv=spec.argv,
                    env=dict(spec.env),
                    own_env=dict(spec.own_env),
                    cores=spec.cores,
                    log_path=str(spec.log_path.absolute()),
                    warmth=str(spec.warmth),
                    slot=spec.slot,
                )
            )
            return handle

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a process; do nothing if it has ended."""
        with self._lock:
            for link in self._links.values():
                if handle in link.live:
                    link.send(SignalProcess(handle, int(signum)))

    def ended(self) -> list[Exit]:
        """Return the processes that have ended since the last call.

        Raises:
            LauncherError: the leases cannot be kept, so that all agents will end.
        """
        with self._lock:
            if self._failure is not None:
                raise LauncherError(f"the hosts cannot be watched: {self._failure!r}")
            found, self._ends = self._ends, []
            return found

    def host_events(self) -> list[HostEvent]:
        """Return the hosts that were lost or came back since the last call, in order."""
        with self._lock:
            found, self._host_events = self._host_events, []
            return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """Keep the chosen number of processes ready for each of these; do not wait for them."""
        wanted: dict[str, list[SpareSpec]] = {}
        for spare in spares:
            wanted.setdefault(spare.host, []).append(spare)
        with self._lock:
            # A lost host has no spares; one that has no agent gets one if a spare is wanted there.
            for host in (wanted.keys() | self._links.keys()) - self._lost.keys():
                self._link(host).keep(wanted.get(host, []), self._spares_per_slot)

    def spares(self) -> Spares:
        """Return the counts of the spares of all hosts."""
        with self._lock:
            counts = [link.spares for link in self._links.values()]
        return Spares(
            wanted=sum(count.wanted for count in counts),
            ready=sum(count.ready for count in counts),
            alive=sum(count.alive for count in counts),
            used=sum(count.used for count in counts),
            missed=sum(count.missed for count in counts),
            failure="; ".join(count.failure for count in counts if count.failure),
        )

    def spares_bytes(self, num_slots: int, built_bytes: int = 0) -> int:
        """Return the estimated memory of the spares of ``num_slots`` slots."""
        return num_slots * self._spares_per_slot * (SPARE_BYTES + built_bytes)

    def close(self) -> None:
        """End all agents, and with them all processes; wait for their ends."""
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
            links = list(self._links.values())
            for link in links:
                link.beat(CloseAgent())
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for link in links:
            # The thread goes on meanwhile: it sends what the sockets had no room for.
            connected = link.connection is not None
            link.end(max(0.0, deadline - time.monotonic()) if connected else 0.0)
        self._wake.send(b"\0")
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._server is not None:
            self._server.close()
        self._links.clear()
        self._wake.close()
        self._woken.close()

    def _serve(self) -> None:
        try:
            self._keep_leases()
        except Exception as error:
            # A thread that dies in silence would let jobs wait for ends that nothing reports.
            self._failure = error

    def _keep_leases(self) -> None:
        """Handle what agents send, and keep their leases, until the launcher has closed."""
        assert self._server is not None
        beat_at = 0.0
        while True:
            # Outside the lock: the main process must be able to send meanwhile.
            watched: list[Any] = [self._server, self._woken]
            ready, _, _ = select.select(watched, [], [], _LOOK_EVERY_S)
            with self._lock:
                if self._woken in ready:
                    return
                self._server.wait(0.0)
                now = time.monotonic()
                if now >= beat_at:
                    beat_at = now + BEAT_EVERY_S
                    for link in self._links.values():
                        link.beat(DriverBeat(now))
                if not self._is_closing:
                    self._judge()
                    self._try_again(now)

    def _judge(self) -> None:
        """Give up the hosts whose agents have ended or are silent."""
        for address, link in list(self._links.items()):
            failure = link.failure()
            if failure is not None:
                del self._links[address]
                if link.connection is not None:
                    self._server_of_run.close_connection(link.connection)
                if address not in self._lost:
                    self._lose(address, f"host {address} is lost: {failure}", len(link.live))
                # A return of the host that failed only postpones the next attempt.
                self._ends += link.lost(self._lost[address].postponed().reason)

    def _lose(self, address: str, reason: str, num_processes: int) -> None:
        ended = f"{num_processes} processes there have ended"
        print(f"warning: {reason}; {ended}", file=sys.stderr)
        self._lost[address] = _LostHost(reason)
        self._host_events.append(HostEvent(address, is_up=False, reason=reason))

    def _try_again(self, now: float) -> None:
        """Start an agent on each lost host for which it is time; note those that are back."""
        for address, lost in list(self._lost.items()):
            link = self._links.get(address)
            if link is not None and link.is_ready:
                del self._lost[address]
                self._host_events.append(HostEvent(address, is_up=True))
                print(f"host {address} is back", file=sys.stderr)
            elif link is None and now >= lost.next_at:
                try:
                    self._link(address)
                except OSError as error:
                    lost.postponed().reason = f"host {address} is lost: {error}"

    def _admit(self, job_id: str) -> Admission | None:
        return Admission(self._token, CHANNELS) if job_id == JOB_ID else None

    def _heard(self, connection: Connection, message: Any) -> None:
        link = self._links.get(connection.greeting.host)
        if isinstance(message, AgentGreeting):
            self._greeted(link, connection, message)
        elif link is not None and link.connection is connection:
            end = link.heard(message)
            if end is not None:
                self._ends.append(end)

    def _greeted(
        self, link: HostLink | None, connection: Connection, greeting: AgentGreeting
    ) -> None:
        """Take an agent's connection, unless the host has one already or runs other code."""
        server = self._server_of_run
        if link is None or link.connection is not None:
            # An agent of a host that was given up has come too late; another one was started.
            server.close_connection(connection)
            return
        found = differences(host_facts(), greeting.facts)
        if found:
            link.refused = f"its agent was refused: {'; '.join(found)}"
            server.close_connection(connection)
            return
        link.greeted(connection, greeting)
        server.send(connection, Prepare(self._preimport, self._spares_per_slot))
        link.beat(DriverBeat(time.monotonic()))

    def _closed(self, connection: Connection) -> None:
        """Do nothing: the next look finds that the connection has ended."""

    def _link(self, address: str) -> HostLink:
        """Return the link to a host; start its agent if it has none."""
        link = self._links.get(address)
        if link is None:
            port = self._server_of_run.address[1]
            command = self._agent_command(address, port)
            link = HostLink(address, command, self._token, self._server_of_run.send)
            self._links[address] = link
        return link

    def _agent_command(self, address: str, port: int) -> str:
        agent = [sys.executable, "-u", "-m", "systems.launchers.hosts.agent"]
        agent += [self._advertise, str(port), address]
        return agent_command(
            self._command,
            {"address": address, "agent": shlex.join(agent), "python": sys.executable},
        )

    @property
    def _server_of_run(self) -> ControlServer:
        if self._server is None:
            raise RuntimeError("open was not called")
        return self._server


class _LostHost:
    """Host without an agent, and the time of the next attempt to start one."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self._wait_s = FIRST_RETRY_S
        self.next_at = math.inf

    def postponed(self) -> _LostHost:
        """Set the next attempt, each time twice as far away; return the host."""
        self.next_at = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_RETRY_S)
        return self
