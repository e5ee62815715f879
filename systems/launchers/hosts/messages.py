"""Messages between the driver and the agent of a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from harness.contracts.process import Exit, Spares, SpareSpec
from systems.runtime.wire.control_server import Channels
from systems.runtime.wire.protocol import Count, Greeting, Inbound, Message, Number, ProcessId

Signal = Annotated[int, msgspec.Meta(ge=1, le=64)]


class HostFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facts of a host as its agent sees them."""

    packages: dict[str, str]
    """Versions by package, and Python's own under ``python``."""
    code_digest: str
    """Digest of the source files of Elastrace on the host."""


class AgentGreeting(Greeting, frozen=True, kw_only=True, omit_defaults=False, tag="agent"):
    """Agent to driver, first of all."""

    host: str
    """Address of the host, as the cluster has it."""
    pid: ProcessId
    facts: HostFacts

    @property
    def sender(self) -> str:
        """Name of the agent, for reasons of refusals."""
        return f"the agent of host {self.host}"


class DriverBeat(Message, frozen=True, tag="driver_beat"):
    """Driver to agent: a sign of life, which the agent answers."""

    sent_s: float
    """Time of the beat, on the driver's monotonic clock."""


class AgentBeat(Message, frozen=True, tag="agent_beat"):
    """Agent to driver: the answer to a beat."""

    sent_s: float
    """The beat's ``sent_s``."""
    at_s: float
    """Time of the answer, on the host's monotonic clock."""


class Prepare(Message, frozen=True, tag="prepare"):
    """Driver to agent, first of all: settings of the host's launcher."""

    preimport: tuple[str, ...]
    spares: Count


class StartProcess(Message, frozen=True, kw_only=True, tag="start"):
    """Driver to agent: a process to start; the fields are those of ``ProcessSpec``."""

    handle: Count
    name: str
    entry: str
    argv: tuple[str, ...]
    env: dict[str, str]
    own_env: dict[str, str]
    cores: tuple[Count, ...]
    log_path: str
    warmth: str
    slot: Count | None


class SignalProcess(Message, frozen=True, tag="signal"):
    """Driver to agent: a signal for a process."""

    handle: Count
    signum: Signal


class WantedSpare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Process to keep ready; the fields are those of ``SpareSpec``."""

    cores: tuple[Count, ...]
    env: dict[str, str]
    prepare: str
    argv: tuple[str, ...]

    def spec(self, host: str, network: Mapping[str, str]) -> SpareSpec:
        """Return the specification on a host.

        Args:
            host: address of the host.
            network: environment that the host itself adds.
        """
        return SpareSpec(host, self.cores, self.env | dict(network), self.prepare, self.argv)


class KeepSpares(Message, frozen=True, tag="keep"):
    """Driver to agent: processes to keep ready, in place of those that were wanted before."""

    number: Count
    """Number of the request, by which the agent's counts name it."""
    spares: tuple[WantedSpare, ...]

    @classmethod
    def of(cls, number: int, spares: Sequence[SpareSpec]) -> KeepSpares:
        """Return the message with this number for these specifications."""
        return cls(
            number,
            tuple(
                WantedSpare(spare.cores, dict(spare.env), spare.prepare, spare.argv)
                for spare in spares
            ),
        )


class CloseAgent(Message, frozen=True, tag="close"):
    """Driver to agent: a request to end all processes and then itself."""


class ProcessEnd(Message, frozen=True, kw_only=True, tag="end"):
    """Agent to driver: the end of a process; the fields are those of ``Exit``."""

    handle: Count
    returncode: Number
    reason: str
    of_machine: bool
    is_kill_from_outside: bool

    def exit(self) -> Exit:
        """Return the end as the launcher seam has it."""
        return Exit(
            self.handle,
            self.returncode,
            self.reason,
            of_machine=self.of_machine,
            is_kill_from_outside=self.is_kill_from_outside,
        )


class SpareCounts(Message, frozen=True, kw_only=True, tag="spares"):
    """Agent to driver: counts of a host's spares; the fields are those of ``Spares``."""

    number: Count
    """Number of the last request that the agent has taken."""
    wanted: Count
    ready: Count
    alive: Count
    used: Count
    missed: Count
    failure: str

    def spares(self) -> Spares:
        """Return the counts as the launcher seam has them."""
        return Spares(self.wanted, self.ready, self.alive, self.used, self.missed, self.failure)


DRIVER_TO_AGENT = (DriverBeat, Prepare, StartProcess, SignalProcess, KeepSpares, CloseAgent)
AGENT_TO_DRIVER = (AgentBeat, ProcessEnd, SpareCounts)

TO_AGENT = Inbound(*DRIVER_TO_AGENT)
"""Messages that an agent accepts."""
CHANNELS = Channels({AgentGreeting: Inbound(*AGENT_TO_DRIVER)})
"""Greeting and messages that a driver accepts of agents."""
