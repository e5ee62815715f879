"""Engine of simulated jobs; its options are ``harness.engines.simulated.Simulated``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engines.simulated.options import Simulated

__all__ = ["Simulated"]


def __getattr__(name: str) -> Any:
    # Late: workers import single modules of this folder and must not load the whole engine.
    if name == "Simulated":
        from harness.engines.simulated.options import Simulated

        return Simulated
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
