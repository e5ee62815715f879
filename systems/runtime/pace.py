"""Paced mode: steps that last at least so long, on an absolute schedule."""

from __future__ import annotations

import time


class Pacer:
    """Holds the ends of steps to a schedule, so that what one step is late the next makes up.

    A worker more than one whole floor behind gives the lost time up: it was not slow by
    accident but cannot keep the pace.
    """

    def __init__(self, floor_s: float) -> None:
        self._floor_s = floor_s
        self._due: float | None = None
        self.num_overruns = 0
        """Steps that ended after they were due."""

    @property
    def is_on(self) -> bool:
        """Whether there is a floor at all."""
        return self._floor_s > 0

    def finish(self, started: float) -> bool:
        """Sleep until the step that ``started`` then is due; True if it is late already."""
        if not self.is_on:
            return False
        self._due = (started if self._due is None else self._due) + self._floor_s
        now = time.monotonic()
        if now <= self._due:
            time.sleep(self._due - now)
            return False
        self.num_overruns += 1
        self._due = max(self._due, now - self._floor_s)
        return True
