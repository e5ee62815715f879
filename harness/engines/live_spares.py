"""Spares in a live run: what fast-forward leaves to them, and how many were used."""

from __future__ import annotations

from harness.engines.setup import EngineSetup
from harness.samples_lost import STEPS_UNTIL_KNOWN

_NOTICED_STEPS = 5
"""Steps until a backend has noticed that training is at rest."""


def steps_to_execute(setup: EngineSetup, steady_steps: int) -> int:
    """Steps between a change and what may be skipped: with spares no fewer than a backend waits
    before it replaces those that the change has used."""
    if not setup.backend.warmth.is_kept:
        return steady_steps
    return max(steady_steps, STEPS_UNTIL_KNOWN + _NOTICED_STEPS)


def spares_are_lacking(setup: EngineSetup) -> bool:
    """Whether there are fewer spares than there will be; those that cannot be made do not count."""
    if not setup.backend.warmth.is_kept:
        return False
    spares = setup.launcher.spares()
    return spares.ready < spares.wanted


def spare_facts(setup: EngineSetup) -> dict[str, float]:
    """How many workers were spares, and how many found none; nothing where none are kept."""
    if not setup.backend.warmth.is_kept:
        return {}
    spares = setup.launcher.spares()
    return {"spares_used": float(spares.used), "spares_missed": float(spares.missed)}
