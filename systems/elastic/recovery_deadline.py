"""When the workers of a job have to go on at the latest after they have lost their group."""

from __future__ import annotations

import time


class RecoveryDeadline:
    """As the job's driver counts it."""

    def __init__(self, limit_s: float) -> None:
        """Args: ``limit_s``: for a recovery."""
        self._limit_s = limit_s
        self.at: float | None = None
        """On ``time.monotonic``; None: nothing was lost."""
        self._leader = ""
        """On whose word alone they are awaited; empty: a worker has died."""

    def died(self) -> None:
        """A worker has: however long the others have taken for another's death."""
        self.at = time.monotonic() + self._limit_s
        self._leader = ""

    def halted(self, leader: str) -> None:
        """A leader has halted the workers, perhaps though nobody has died."""
        if self.at is None:
            self.at = time.monotonic() + self._limit_s
            self._leader = leader
        elif self._leader:
            self._leader = leader

    def deposed(self, leader: str) -> None:
        """It leads no more: on its word nobody is awaited any longer. Those that it has halted say
        so to the next leader, who then says so to the driver."""
        if self._leader == leader:
            self.met()

    def met(self) -> None:
        """They have gone on."""
        self.at, self._leader = None, ""
