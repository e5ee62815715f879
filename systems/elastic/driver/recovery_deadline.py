"""Deadline by which workers that have lost their group must train again."""

from __future__ import annotations

import time


class RecoveryDeadline:
    """Deadline of a job's recovery, kept by the driver."""

    def __init__(self, limit_s: float) -> None:
        """Begin without a deadline.

        Args:
            limit_s: longest time of a recovery.
        """
        self._limit_s = limit_s
        self.at: float | None = None
        """Deadline on ``time.monotonic``; None: no recovery is awaited."""
        self._leader = ""
        """Leader on whose word alone a recovery is awaited; empty if a worker has died."""

    def died(self) -> None:
        """Set the deadline after a death, in full again if a recovery is under way."""
        self.at = time.monotonic() + self._limit_s
        self._leader = ""

    def halted(self, leader: str) -> None:
        """Set a deadline, if there is none: a leader has halted the workers, even without a death.

        A later leader takes the place of an earlier one.
        """
        if self.at is None:
            self.at = time.monotonic() + self._limit_s
            self._leader = leader
        elif self._leader:
            self._leader = leader

    def deposed(self, leader: str) -> None:
        """Drop the deadline if only this leader, which leads no more, has halted the workers.

        The halted workers tell the next leader, which then tells the driver.
        """
        if self._leader == leader:
            self.met()

    def met(self) -> None:
        """Drop the deadline: the workers train again."""
        self.at, self._leader = None, ""
