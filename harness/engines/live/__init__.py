"""Engine of real training; configurations name its options ``harness.engines.live.Live``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engines.live.options import Live

__all__ = ["Live"]


def __getattr__(name: str) -> Any:
    # Late: workers import single modules of this folder and must not load the whole engine.
    if name == "Live":
        from harness.engines.live.options import Live

        return Live
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
