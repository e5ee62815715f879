"""Paced mode: steps that last at least so long, on an absolute schedule."""

from __future__ import annotations

import time
from collections import deque

_NUM_RECENT = 10


class Pacer:
    """Holds steps to a schedule, so that what one step is late the next makes up.

    Where a step's update follows its padding, the step is due when that has ended. It is taken to
    last as long as in the quickest of the last few steps, at other sizes too; else the first step
    of a schedule would be longer by it than all others. Where workers wait for each other after
    the padding nothing is taken off: who waits would pad less, and then wait for longer.

    A worker more than one whole floor behind gives the lost time up: it was not slow by
    accident but cannot keep the pace.
    """

    def __init__(self, floor_s: float, *, is_before_update: bool = False) -> None:
        """Args: ``is_before_update``: whether a step is padded before its update."""
        self._floor_s = floor_s
        self._is_before_update = is_before_update
        self._end_due: float | None = None
        self._woke_at: float | None = None
        self._after_s: deque[float] = deque(maxlen=_NUM_RECENT)
        """From the end of the padding to the next step's start, of the last steps."""
        self.num_overruns = 0
        """Steps that were late when they would have been padded."""

    @property
    def is_on(self) -> bool:
        """Whether there is a floor at all."""
        return self._floor_s > 0

    def begin_anew(self, floor_s: float) -> None:
        """Another floor, and another schedule, which begins with the next step."""
        self._floor_s = floor_s
        self._end_due = self._woke_at = None

    def finish(self, started: float) -> bool:
        """Sleep until what is left of the step that ``started`` then ends it when it is due; True
        if it is late already."""
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
