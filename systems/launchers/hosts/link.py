"""A driver's side of one host: the agent's process, connection, clock, and processes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from harness.contracts.process import Exit, Spares, SpareSpec
from systems.launchers.exits import describe_code, last_line
from systems.launchers.hosts.lease import (
    CLOSE_TIMEOUT_S,
    LOST_AFTER_S,
    START_TIMEOUT_S,
)
from systems.launchers.hosts.messages import (
    AgentBeat,
    AgentGreeting,
    KeepSpares,
    ProcessEnd,
    SpareCounts,
    StartProcess,
)
from systems.runtime.wire.clock import CLOCK_OFFSET_VARIABLE
from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.protocol import Message

CODE_NEVER_RAN = 1


class HostLink:
    """One host of a driver: starting, connected, or lost.

    Messages may be sent before the agent has connected: they wait. The link is used by one thread
    at a time; its owner has the lock.
    """

    def __init__(
        self, address: str, command: str, token: str, send: Callable[[Connection, Message], None]
    ) -> None:
        """Start the host's agent; do not wait for it.

        Args:
            address: address of the host, as the cluster has it.
            command: command that starts the agent, as a shell would split it.
            token: token that the agent must show.
            send: sends a message on a connection.

        Raises:
            OSError: the system cannot start the command.
        """
        self.address = address
        self.connection: Connection | None = None
        self.greeting: AgentGreeting | None = None
        self._spares = Spares()
        """Counts that the agent has sent last."""
        self._num_kept = 0
        """Number of requests for spares."""
        self._num_answered = 0
        """Number of the last request that these counts follow."""
        self._num_wanted = 0
        """Number of spares in the last request."""
        self.offset_s: float | None = None
        """Seconds to add to the host's monotonic clock for the driver's; None: not measured."""
        self.round_trip_s = float("inf")
        """Shortest time from a beat to its answer. Half of it bounds the error of the offset."""
        self.live: set[int] = set()
        """Handles of the processes whose end was not reported."""
        self.refused: str | None = None
        """Reason why the host's agent was refused; None if it was not."""
        self._send = send
        self._waiting: list[Message] = []
        self._heard_at = time.monotonic()
        self._log = tempfile.NamedTemporaryFile(prefix="elastrace-agent-", suffix=".log")  # noqa: SIM115  (closed by close)
        self._starter = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            # The terminal's Ctrl-C must not reach the agent: the driver decides when it ends.
            start_new_session=True,
        )
        assert self._starter.stdin is not None
        with suppress(OSError):  # it has ended already, which the next look finds
            self._starter.stdin.write(token.encode() + b"\n")
            # Open from now on: the agent's starter must not take the end of its input for a hint.
            self._starter.stdin.flush()

    @property
    def is_ready(self) -> bool:
        """True once the agent has connected and its clock has been compared."""
        return self.connection is not None and self.offset_s is not None

    def greeted(self, connection: Connection, greeting: AgentGreeting) -> None:
        """Take the agent's connection."""
        self.connection, self.greeting = connection, greeting
        self._heard_at = time.monotonic()

    def send(self, message: Message) -> None:
        """Send a message, or keep it until the agent is ready."""
        self._waiting.append(message)
        self._deliver()

    def keep(self, spares: Sequence[SpareSpec], per_slot: int) -> None:
        """Have the agent keep so many spares for each of these."""
        self._num_kept += 1
        self._num_wanted = len(spares) * per_slot
        self.send(KeepSpares.of(self._num_kept, spares))

    @property
    def spares(self) -> Spares:
        """Counts of the host's spares. All that are wanted are missing until the agent answers."""
        if self._num_answered == self._num_kept:
            return self._spares
        return replace(self._spares, wanted=self._num_wanted, ready=0, failure="")

    def beat(self, message: Message) -> None:
        """Send a beat at once, if the agent has connected."""
        if self.connection is not None:
            self._send(self.connection, message)

    def heard(self, message: AgentBeat | ProcessEnd | SpareCounts) -> Exit | None:
        """Take a message of the agent; return the end of a process, if it reports one."""
        self._heard_at = now = time.monotonic()
        match message:
            case AgentBeat():
                self._compare_clocks(message, now)
            case SpareCounts():
                self._spares, self._num_answered = message.spares(), message.number
            case ProcessEnd() if message.handle in self.live:
                self.live.discard(message.handle)
                return message.exit()
        return None

    def _compare_clocks(self, answer: AgentBeat, now: float) -> None:
        """Keep the offset of the shortest round trip: its error is at most half of that time."""
        round_trip_s = now - answer.sent_s
        if 0 <= round_trip_s < self.round_trip_s:
            self.round_trip_s = round_trip_s
            self.offset_s = (answer.sent_s + now) / 2 - answer.at_s
        self._deliver()

    def _deliver(self) -> None:
        """Send what waits, once the agent has connected and its clock has been compared.

        A process needs the offset of its host's clock from its start on.
        """
        if not self.is_ready:
            return
        assert self.connection is not None
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            if isinstance(message, StartProcess):
                offset = {CLOCK_OFFSET_VARIABLE: repr(self.offset_s)}
                message = msgspec.structs.replace(message, own_env=message.own_env | offset)
            self._send(self.connection, message)

    def failure(self) -> str | None:
        """Return why the host is lost, or None if it is not."""
        silent_s = time.monotonic() - self._heard_at
        code = self._starter.poll()
        if self.refused is not None:
            return self.refused
        if self.connection is not None:
            if not self.connection.is_open:
                return f"its agent has ended the connection{self._last_words(code)}"
            if silent_s > LOST_AFTER_S:
                return f"its agent was not heard for {LOST_AFTER_S:g} s"
        elif code is not None:
            return f"its agent could not be started{self._last_words(code)}"
        elif silent_s > START_TIMEOUT_S:
            said = self._last_words(code)
            return f"its agent did not connect within {START_TIMEOUT_S:g} s{said}"
        return None

    def lost(self, reason: str) -> list[Exit]:
        """Return the ends of all processes of the lost host, and end the agent's starter."""
        ends = [lost_exit(handle, reason) for handle in sorted(self.live)]
        self.live.clear()
        # Without a wait: the caller also keeps the leases of all other hosts.
        self._kill_starter()
        self._log.close()
        return ends

    def end(self, timeout_s: float = 0.0) -> None:
        """Wait for the end of the agent's starter, and kill what is left of it; safe to call twice.

        Args:
            timeout_s: time that the agent has to end its workers.
        """
        if self._starter.stdin is not None:
            with suppress(OSError):
                self._starter.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._starter.wait(timeout_s)
        self._kill_starter()
        with suppress(subprocess.TimeoutExpired):
            self._starter.wait(CLOSE_TIMEOUT_S)
        self._log.close()

    def _kill_starter(self) -> None:
        """Kill what is left of the agent's starter, and what it has started in its session."""
        if self._starter.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._starter.pid, signal.SIGKILL)

    def _last_words(self, code: int | None) -> str:
        said = last_line(Path(self._log.name))
        told = [] if code is None else [describe_code(code)]
        told += [said] if said else []
        return f" ({': '.join(told)})" if told else ""


def lost_exit(handle: int, reason: str) -> Exit:
    """Return the end of a process on a lost host."""
    return Exit(handle, CODE_NEVER_RAN, reason, of_machine=True, host_lost=True)


def agent_command(template: str, values: Mapping[str, str]) -> str:
    """Return the command that starts an agent.

    Args:
        template: command with names in braces, such as ``ssh {address} {agent}``.
        values: texts by name.

    Raises:
        ValueError: the template names something that is not there.
    """
    try:
        return template.format_map(values)
    except (KeyError, IndexError, ValueError) as error:
        known = ", ".join(f"{{{name}}}" for name in values)
        raise ValueError(
            f"command is {template!r}, which cannot be filled in ({error}); known: {known}"
        ) from None
