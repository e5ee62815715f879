"""Options of the backend ``torchrun``."""

from __future__ import annotations

from dataclasses import dataclass, field

from systems.runtime.options import RuntimeOptions


@dataclass(frozen=True, slots=True)
class TorchrunOptions:
    """What all backends let their user choose, and TorchElastic's own settings.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)
    last_call_timeout_s: int = 2
    """How long a rendezvous waits for more agents once there is one. Torch's own 30 s would
    be part of every change of size."""
    keep_alive_interval_s: int = 5
    """Every so often an agent shows that it lives."""
    keep_alive_attempts: int = 3
    """After so many missing signs of life an agent counts as gone. Times the interval, this
    is what a scale-in takes at least: an agent that ends does not leave the rendezvous."""
    monitor_interval_s: float = 0.1
    """Every so often an agent looks at its worker, and whether agents wait to join."""
    max_restarts: int = 100
    """Failures that an agent survives. The survivors of every scale-in fail once."""

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
