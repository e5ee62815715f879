"""Agents and rounds of a job under TorchElastic, as its driver knows them. It decides nothing.

An *agent* is a process of the launcher's, one for each slot. A *round* is what the agents'
rendezvous agreed on: which of them train together until the next restart. TorchElastic makes
the rounds; the driver learns of one when the first of its workers greets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.cluster import Slot
from harness.contracts.launcher import Exit
from systems.runtime.control_server import Connection
from systems.runtime.driven_job import Saved


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time, on ``time.monotonic``."""

    began: float
    ended: float


@dataclass(slots=True)
class Agent:
    """One agent."""

    number: int
    slot: Slot
    handle: int
    connection: Connection | None = None
    is_ready: bool = False
    """Whether it has imported what it needs and waits for its order."""
    has_order: bool = False
    is_leaving: bool = False
    """Whether it was told to end."""
    end: Exit | None = None
    silent_s: float = 0.0
    """For how long it had been silent when it was killed for that; 0: it was not."""
    spans: dict[str, list[Span]] = field(default_factory=dict)
    """What it measured of itself, by phase, in order."""

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended."""
        return self.end is not None


@dataclass(slots=True)
class Worker:
    """One worker of a round."""

    agent: int
    connection: Connection
    greeted_at: float
    has_left: bool = False


@dataclass(slots=True)
class Round:
    """Workers that train together between two restarts."""

    number: int
    """Counts the rounds of a job, from 1; the generation of its workers' logs."""
    store: str
    """Where its workers meet; no other round of the job meets there."""
    num_workers: int
    global_batch: int
    checkpoint: Saved | None
    """What all of its workers start from."""
    has_begun: bool = False
    """Whether its first step has ended."""
    workers: dict[int, Worker] = field(default_factory=dict)
    """By rank."""

    @property
    def is_broken(self) -> bool:
        """Whether a worker has gone without leave."""
        return any(not w.connection.is_open and not w.has_left for w in self.workers.values())
