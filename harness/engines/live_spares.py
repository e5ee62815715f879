"""Spares in a live run: what fast-forward leaves to them, and how many were used."""

from __future__ import annotations

import time

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


class LiveSpares:
    """The spares of one run, as its engine sees them."""

    def __init__(self, setup: EngineSetup, longest_s: float) -> None:
        """Args: how long to wait for spares, in seconds of wall clock."""
        self._launcher = setup.launcher
        self._are_kept = setup.backend.warmth.is_kept
        self._longest_s = longest_s
        self._lacking_since: float | None = None
        self._seen: tuple[int, int] | None = None
        """How many were ready then, and how many had been used."""

    def are_awaited(self) -> bool:
        """Whether there are fewer than there will be, which are worth waiting for.

        They are not where none has got ready or was used for too long: a spare may hang, and jobs
        whose steps take long may never be at rest between the changes of others.
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
        """How many workers were spares, and how many found none; nothing where none are kept."""
        if not self._are_kept:
            return {}
        spares = self._launcher.spares()
        return {"spares_used": float(spares.used), "spares_missed": float(spares.missed)}
