"""Emulation of a device that takes time but no core, so that there can be more workers than cores.

A workload with an emulated device waits for a given time for each sample. It waits in slices, each
timed from its own start. A process that is stopped now and then therefore falls behind, like a
process that computes. With a single long wait it would end on time in spite of the stops.
"""

from __future__ import annotations

import time

SLICE_S = 0.001
_MADE_UP_S = 0.0002
"""Largest overrun of a slice that the next slice makes up, seconds. A wait takes slightly longer
than requested, even on an idle machine. A process with a longer overrun was stopped, or had no
core."""


def occupy(seconds: float) -> None:
    """Wait as if a device computed for ``seconds``; time while stopped does not count."""
    left_s, early_s = seconds, 0.0
    while left_s > 0:
        slice_s = min(left_s, SLICE_S)
        started = time.monotonic()
        time.sleep(max(0.0, slice_s - early_s))
        late_s = time.monotonic() - started + early_s - slice_s
        early_s = min(max(0.0, late_s), _MADE_UP_S)
        left_s -= slice_s
