"""Spares in a live run: how fast-forward waits for them, and how many were used."""

from __future__ import annotations

import time

from harness.engines.setup import EngineSetup
from harness.metrics.samples_lost import STEPS_UNTIL_KNOWN

_NOTICED_STEPS = 5
"""Steps until a backend has noticed that training is at rest."""


def steps_to_execute(setup: EngineSetup, steady_steps: int) -> int:
    """Return the steps to execute after a change before any are skipped. With spares, these are at
    least the steps that a backend waits before it replaces used spares."""
    if not setup.backend.warmth.is_kept:
        return steady_steps
    return max(steady_steps, STEPS_UNTIL_KNOWN + _NOTICED_STEPS)


class LiveSpares:
    """Spares of one run, as its engine sees them."""

    def __init__(self, setup: EngineSetup, longest_s: float) -> None:
        """Watch the spares of a run.

        Args:
            setup: setup of the run.
            longest_s: longest wait for spares without progress, in seconds of wall clock.
        """
        self._launcher = setup.launcher
        self._are_kept = setup.backend.warmth.is_kept
        self._longest_s = longest_s
        self._lacking_since: float | None = None
        self._seen: tuple[int, int] | None = None
        """Ready and used spares at ``_lacking_since``."""

    def are_awaited(self) -> bool:
        """Return whether spares are missing and worth waiting for.

        The wait ends if no spare has become ready or was used for too long. A spare may hang, and
        jobs with long steps may never be at rest between the changes of others.
        """
        spares = self._launcher.spares() if self._are_kept else None
        if spares is None or spares.ready >= spares.wanted:
            self._lacking_since = self._seen = None
            return False
        now, seen = time.monotonic(), (spares.ready, spares.used)
        if self._lacking_since is None or seen != self._seen:
            self._lacking_since, self._seen = now, seen
        return now - self._lacking_since <= self._longest_s

    def facts(self) -> dict[str, float]:
        """Return how many starts got a spare and how many got none; empty if no spares are kept."""
        if not self._are_kept:
            return {}
        spares = self._launcher.spares()
        return {"spares_used": float(spares.used), "spares_missed": float(spares.missed)}
