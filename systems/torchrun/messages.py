"""Messages of jobs under TorchElastic; those of all backends are in ``runtime.wire.messages``."""

from __future__ import annotations

from systems.runtime.wire.control_server import Channels
from systems.runtime.wire.messages import (
    DRIVER_TO_PROCESS,
    FROM_STORE,
    PROCESS_TO_DRIVER,
    WORKER_TO_DRIVER,
    BeatRequest,
    ProcessGreeting,
    StoreGreeting,
)
from systems.runtime.wire.protocol import Count, Inbound, Message, ProcessId, Seconds
from systems.torchrun.order import AgentOrder


class AgentGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="agent_greeting"):
    """Agent to driver: it has started and imports TorchElastic."""

    agent: Count
    """Number of the agent in its job."""

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"agent {self.agent} of job {self.job_id}"


class RoundGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="round_greeting"):
    """Worker of a round to driver: TorchElastic has started it, and it awaits its order."""

    agent: Count
    """Number of the worker's agent."""
    rank: Count
    num_workers: Count
    store: str
    """``address:port`` of the store where the workers of the round meet."""

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"worker {self.rank} of agent {self.agent} of job {self.job_id}"


class KillWorker(Message, frozen=True, kw_only=True, tag="kill_worker"):
    """Driver to agent, when the agent's worker is silent: kill it."""

    pid: ProcessId


class Ready(Message, frozen=True, kw_only=True, tag="ready"):
    """Agent to driver, after its imports: it awaits its order."""


class Measured(Message, frozen=True, kw_only=True, tag="measured"):
    """Agent to driver, after a phase that TorchElastic has measured."""

    phase: str
    began: Seconds
    """Start of the phase, on the driver's clock."""
    ended: Seconds
    """End of the phase, on the same clock."""


DRIVER_TO_AGENT = (AgentOrder, KillWorker)
AGENT_TO_DRIVER = (Ready, Measured)

TO_AGENT = Inbound(*DRIVER_TO_PROCESS, BeatRequest, *DRIVER_TO_AGENT)
"""Messages that an agent accepts from the driver."""
CHANNELS = Channels(
    {
        StoreGreeting: FROM_STORE,
        AgentGreeting: Inbound(*PROCESS_TO_DRIVER, *AGENT_TO_DRIVER),
        RoundGreeting: Inbound(*PROCESS_TO_DRIVER, *WORKER_TO_DRIVER),
    }
)
