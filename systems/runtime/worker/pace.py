"""Paced mode: steps of a minimum duration, on an absolute schedule."""

from __future__ import annotations

import time
from collections import deque

_NUM_RECENT = 10


class Pacer:
    """Schedule that pads steps to a floor; a step makes up for the delay of the previous one.

    If a step's update follows its padding, the step is due when its update has ended. The update's
    duration is taken from the quickest of the last few steps, also of steps at other sizes.
    Otherwise the first step of a schedule would be longer than all others by its update. If workers
    wait for each other after the padding, nothing is subtracted: a worker that waits would pad
    less, and then wait longer.

    A worker that is more than one floor behind gives up the lost time: it cannot keep the pace.
    """

    def __init__(self, floor_s: float, *, is_before_update: bool = False) -> None:
        """Set the floor. Args: ``is_before_update``: true if a step is padded before its update."""
        self._floor_s = floor_s
        self._is_before_update = is_before_update
        self._end_due: float | None = None
        self._woke_at: float | None = None
        self._after_s: deque[float] = deque(maxlen=_NUM_RECENT)
        """Seconds from the end of the padding to the next step's start, of the last steps."""
        self.num_overruns = 0
        """Number of steps that were late when their padding was due."""

    @property
    def is_on(self) -> bool:
        """True if there is a floor."""
        return self._floor_s > 0

    def begin_anew(self, floor_s: float) -> None:
        """Set a floor and begin another schedule with the next step."""
        self._floor_s = floor_s
        self._end_due = self._woke_at = None

    def finish(self, started: float) -> bool:
        """Sleep until the step is due to end; return True if it is late already.

        Args:
            started: start of the step, on ``time.monotonic``.
        """
        if not self.is_on:
            return False
        if self._is_before_update and self._woke_at is not None:
            self._after_s.append(started - self._woke_at)
        self._end_due = (started if self._end_due is None else self._end_due) + self._floor_s
        due = self._end_due - min(self._after_s, default=0.0)
        now = time.monotonic()
        is_late = now > due
        if is_late:
            self.num_overruns += 1
            self._end_due = max(self._end_due, now - self._floor_s)
        else:
            time.sleep(due - now)
        self._woke_at = time.monotonic()
        return is_late
