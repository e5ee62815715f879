"""Agents and rounds of a job under TorchElastic, as its driver knows them. This module decides
nothing.

An *agent* is a process of the launcher, one for each slot. A *round* is the result of one
rendezvous: the agents whose workers train together until the next restart. TorchElastic makes the
rounds; the driver learns of one when its first worker greets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.cluster import Slot
from harness.contracts.process import Exit
from systems.runtime.driver.job_status import Saved
from systems.runtime.wire.control_server import Connection


@dataclass(frozen=True, slots=True)
class Span:
    """Interval on ``time.monotonic``."""

    began: float
    ended: float


@dataclass(slots=True)
class Agent:
    """TorchElastic agent of one slot."""

    number: int
    slot: Slot
    handle: int
    connection: Connection | None = None
    is_ready: bool = False
    """True once it has finished its imports and waits for its order."""
    has_order: bool = False
    is_leaving: bool = False
    """True if it was told to end."""
    end: Exit | None = None
    silent_s: float = 0.0
    """Seconds of silence if it was killed for its silence, otherwise 0."""
    spans: dict[str, list[Span]] = field(default_factory=dict)
    """Its own measurements, by phase, in order."""

    @property
    def is_gone(self) -> bool:
        """True if its process has ended."""
        return self.end is not None


@dataclass(slots=True)
class Worker:
    """Worker of a round."""

    agent: int
    connection: Connection
    greeted_at: float
    has_left: bool = False


@dataclass(slots=True)
class Round:
    """Workers that train together between two restarts."""

    number: int
    """Number of the round among the job's rounds; the generation of its workers' logs."""
    store: str
    """Store where its workers meet; no other round of the job uses it."""
    num_workers: int
    global_batch: int
    checkpoint: Saved | None
    """Checkpoint from which all its workers start."""
    has_begun: bool = False
    """True once its first step has ended."""
    workers: dict[int, Worker] = field(default_factory=dict)
    """Workers by rank."""

    @property
    def is_broken(self) -> bool:
        """True if a worker has gone without permission."""
        return any(not w.connection.is_open and not w.has_left for w in self.workers.values())
