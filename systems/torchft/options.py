"""Options of the backend ``torchft``."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.contracts.process import Warmth
from systems.runtime.wire.options import RuntimeOptions

WARMTHS = (Warmth.COLD, Warmth.PREIMPORTED)
"""Warmths at which torchft's replicas can start."""


@dataclass(frozen=True, slots=True)
class TorchftOptions:
    """Options of all backends, and torchft's own settings.

    Raises:
        ValueError: options are out of range; the text lists all of them, one a line.
    """

    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)
    heartbeat_interval_s: float = 0.1
    """Interval of a replica's heartbeats to the lighthouse."""
    heartbeat_timeout_s: float = 1.0
    """Silence after which the lighthouse takes a replica for dead. It is the shortest time of a
    scale-in and of a recovery, since no replica can sign off."""
    quorum_tick_s: float = 0.1
    """Interval at which the lighthouse looks for a quorum on its own."""
    join_timeout_s: float = 60.0
    """Time for which a new quorum waits for replicas that live and do not ask for one."""
    quorum_timeout_s: float = 60.0
    """Time for which a replica waits for a quorum before it gives up."""
    min_replicas: int = 1
    """Fewest replicas that train; fewer wait for more."""
    drop_failed_group: bool = True
    """True if a replica closes its connections to the others once a sum of theirs has failed.
    torchft itself keeps them until the next quorum, so of three or more replicas those that are not
    neighbours of the dead one wait for ``collective_timeout_s``."""

    def __post_init__(self) -> None:
        problems = []
        if self.runtime.start not in WARMTHS:
            known = ", ".join(WARMTHS)
            problems.append(f"start is {self.runtime.start!r}, but torchft knows only: {known}")
        for name in (
            "heartbeat_interval_s",
            "heartbeat_timeout_s",
            "quorum_tick_s",
            "join_timeout_s",
            "quorum_timeout_s",
        ):
            if not getattr(self, name) > 0:
                problems.append(f"{name} is {getattr(self, name)}; it must be > 0")
        if self.heartbeat_timeout_s <= self.heartbeat_interval_s:
            problems.append(
                f"heartbeat_timeout_s is {self.heartbeat_timeout_s}, no longer than"
                f" heartbeat_interval_s ({self.heartbeat_interval_s}): every replica would be"
                " taken for dead; use several intervals"
            )
        if self.min_replicas < 1:
            problems.append(f"min_replicas is {self.min_replicas}; it must be at least 1")
        if problems:
            raise ValueError("\n".join(problems))
