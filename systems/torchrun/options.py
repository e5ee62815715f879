"""Options of the backend ``torchrun``."""

from __future__ import annotations

from dataclasses import dataclass, field

from systems.runtime.wire.options import RuntimeOptions


@dataclass(frozen=True, slots=True)
class TorchrunOptions:
    """Options of all backends, and TorchElastic's own settings.

    Raises:
        ValueError: options are out of range; the text lists all of them, one a line.
    """

    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)
    last_call_timeout_s: int = 2
    """Seconds for which a rendezvous with at least one agent waits for more. Torch's default of 30
    s would be part of every change of size."""
    keep_alive_interval_s: int = 5
    """Interval of an agent's heartbeats to the rendezvous."""
    keep_alive_attempts: int = 3
    """Number of missing heartbeats after which an agent counts as gone. Multiplied by the interval,
    it is the shortest time of a scale-in, since an agent that ends does not leave the
    rendezvous."""
    monitor_interval_s: float = 0.1
    """Interval at which an agent checks its worker, and whether agents wait to join."""
    max_restarts: int = 100
    """Number of failures that an agent survives. The survivors of every scale-in fail once."""

    def __post_init__(self) -> None:
        problems = []
        if self.runtime.start != "cold":
            problems.append(
                f"start is {self.runtime.start!r}, but torchrun can only be cold: its agents"
                " start each worker in a fresh interpreter; use start=cold"
            )
        if self.runtime.checkpoint_every < 1:
            problems.append(
                f"checkpoint_every is {self.runtime.checkpoint_every}, but torchrun goes on from"
                " the last checkpoint after every change; it must be at least 1"
            )
        for name in ("last_call_timeout_s", "keep_alive_interval_s", "keep_alive_attempts"):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not self.monitor_interval_s > 0:
            problems.append(f"monitor_interval_s is {self.monitor_interval_s}; it must be > 0")
        if self.max_restarts < 0:
            problems.append(f"max_restarts is {self.max_restarts}; use 0 for none")
        if problems:
            raise ValueError("\n".join(problems))
