"""Agent of one host: starts and watches the host's processes for a driver elsewhere.

``python -m systems.launchers.hosts.agent DRIVER PORT HOST`` connects to the driver and obeys its
messages with a local launcher. The token of the run comes on standard input, since arguments can be
read by every user of the host.

No worker outlives its agent: the kernel kills each of them with its parent. The agent ends, and its
workers with it, when the driver closes the connection or is silent for longer than the lease.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from harness.contracts.process import ProcessSpec, Spares, Warmth
from harness.machine.network import interface_of
from systems.launchers.hosts.facts import host_facts
from systems.launchers.hosts.lease import EXIT_LEASE_OVER, LEASE_S
from systems.launchers.hosts.messages import (
    TO_AGENT,
    AgentBeat,
    AgentGreeting,
    CloseAgent,
    DriverBeat,
    KeepSpares,
    Prepare,
    ProcessEnd,
    SignalProcess,
    SpareCounts,
    StartProcess,
)
from systems.launchers.local import Local
from systems.runtime.wire.control import EXIT_DRIVER_GONE, ControlClient
from systems.runtime.wire.protocol import sendable

JOB_ID: Final = "hosts"
"""Name under which agents greet: they belong to a run, and to none of its jobs."""
_LOOK_EVERY_S: Final = 0.02
"""Time between two looks at the processes, so the longest delay of the news of an end."""
_NEVER_STARTED: Final = 1


class Agent:
    """Local launcher that obeys the messages of a driver."""

    def __init__(self, host: str, client: ControlClient, is_over: threading.Event) -> None:
        """Begin without a process.

        Args:
            host: address of this host, as the cluster has it.
            client: connection to the driver.
            is_over: set when the driver has closed the connection.
        """
        self._host = host
        self._client = client
        self._is_over = is_over
        interface = interface_of(host)
        self._network = {} if interface is None else {"GLOO_SOCKET_IFNAME": interface}
        """Environment that keeps gloo on the network of this host's address. Only the host itself
        knows the name of the interface."""
        self._local: Local | None = None
        self._handles: dict[int, int] = {}
        """The driver's handles of live processes, by the local launcher's."""
        self._kept = 0
        """Number of the driver's last request for spares."""
        self._told_spares = 0, Spares()
        """Number and counts that the driver knows."""
        self._refused_spares = ""
        """Reason why no spares can be kept on this host; empty if they can."""
        self._heard_at = time.monotonic()

    def run(self) -> int:
        """Obey the driver until it closes the connection or its lease is over; return the exit
        code."""
        looked_at = time.monotonic()
        while True:
            message: Any = None
            with suppress(queue.Empty):
                message = self._client.inbox.get(timeout=_LOOK_EVERY_S)
            now = time.monotonic()
            # An agent that was stopped finds old beats in its socket when it continues. They do not
            # extend the lease: the driver has given up this host in the meantime.
            was_stopped = now - looked_at > LEASE_S
            looked_at = now
            if self._is_over.is_set():
                return self._close(EXIT_DRIVER_GONE)
            if was_stopped or now - self._heard_at > LEASE_S:
                print(f"the driver was not heard for {LEASE_S:g} s", file=sys.stderr, flush=True)
                return self._close(EXIT_LEASE_OVER)
            if message is not None:
                self._heard_at = now
                if isinstance(message, CloseAgent):
                    return self._close(0)
                self._obey(message)
            self._report()

    def _obey(self, message: Any) -> None:
        match message:
            case DriverBeat():
                self._client.send(AgentBeat(message.sent_s, time.monotonic()))
            case Prepare():
                self._local = Local(message.preimport, message.spares)
                self._local.open()
            case StartProcess():
                self._start(message)
            case SignalProcess():
                for local, handle in self._handles.items():
                    if handle == message.handle:
                        self._launcher.signal(local, signal.Signals(message.signum))
            case KeepSpares():
                self._keep(message)

    def _start(self, order: StartProcess) -> None:
        spec = ProcessSpec(
            name=order.name,
            entry=order.entry,
            argv=order.argv,
            env=order.env | self._network,
            own_env=order.own_env,
            host=self._host,
            cores=order.cores,
            log_path=Path(order.log_path),
            warmth=Warmth(order.warmth),
            slot=order.slot,
        )
        try:
            self._handles[self._launcher.start(spec)] = order.handle
        except Exception as error:
            # Any failure here is the host's: the program has not run.
            self._tell_end(order.handle, _NEVER_STARTED, f"it could not be started: {error}")

    def _keep(self, order: KeepSpares) -> None:
        self._refused_spares, self._kept = "", order.number
        try:
            self._launcher.keep([spare.spec(self._host, self._network) for spare in order.spares])
        except Exception as error:
            self._refused_spares = sendable(str(error))

    def _tell_end(self, handle: int, returncode: int, reason: str) -> None:
        self._client.send(
            ProcessEnd(
                handle=handle,
                returncode=returncode,
                reason=sendable(reason),
                of_machine=True,
                is_kill_from_outside=False,
            )
        )

    def _report(self) -> None:
        """Send the counts of spares if they have changed, and then the ends of processes.

        In this order a driver that hears of an end knows the counts after it.
        """
        if self._local is None:
            return
        ends = self._local.ended()
        self._report_spares()
        for end in ends:
            self._client.send(
                ProcessEnd(
                    handle=self._handles.pop(end.handle),
                    returncode=end.returncode,
                    reason=sendable(end.reason),
                    of_machine=end.of_machine,
                    is_kill_from_outside=end.is_kill_from_outside,
                )
            )

    def _report_spares(self) -> None:
        spares = self._launcher.spares()
        if self._refused_spares:
            spares = replace(spares, failure=self._refused_spares)
        if (self._kept, spares) != self._told_spares:
            self._told_spares = self._kept, spares
            self._client.send(
                SpareCounts(
                    number=self._kept,
                    wanted=spares.wanted,
                    ready=spares.ready,
                    alive=spares.alive,
                    used=spares.used,
                    missed=spares.missed,
                    failure=sendable(spares.failure),
                )
            )

    @property
    def _launcher(self) -> Local:
        if self._local is None:
            raise RuntimeError("the driver has sent no settings")
        return self._local

    def _close(self, code: int) -> int:
        if self._local is not None:
            self._local.close()
        self._client.close()
        return code


def main(argv: Sequence[str]) -> int:
    """Run the agent of this host; return its exit code."""
    driver, port, host = argv
    token = sys.stdin.readline().strip()
    # Only the driver decides when an agent ends. A terminal's Ctrl-C reaches a starter's processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    greeting = AgentGreeting(
        job_id=JOB_ID, token=token, host=host, pid=os.getpid(), facts=host_facts()
    )
    is_over = threading.Event()
    client = ControlClient(driver, int(port), greeting, TO_AGENT, on_end=is_over.set)
    return Agent(host, client, is_over).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
