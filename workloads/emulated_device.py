"""Computing that takes a device's time and no core's: for more workers than there are cores.

A workload that is told how long its device takes for a sample waits that long. It waits in
slices, each from its own begin, so that a process which is stopped now and then falls behind
as one that computes does; a single long wait would be over as early as ever.
"""

from __future__ import annotations

import time

SLICE_S = 0.001
_MADE_UP_S = 0.0002
"""A wait is longer than asked for, a little on an idle machine; the next one makes up so much
of it. Who was away for longer has been stopped, or had no core."""


def occupy(seconds: float) -> None:
    """Let a device compute for so long, if nobody stops the process."""
    left_s, early_s = seconds, 0.0
    while left_s > 0:
        slice_s = min(left_s, SLICE_S)
        started = time.monotonic()
        time.sleep(max(0.0, slice_s - early_s))
        late_s = time.monotonic() - started + early_s - slice_s
        early_s = min(max(0.0, late_s), _MADE_UP_S)
        left_s -= slice_s
