"""The driver's clock, on which workers of all hosts report times.

Each host counts its monotonic clock from another moment. The launcher gives a process the offset of
its host's clock; on the driver's own host the offset is zero. So the driver can subtract times of
different workers, up to the error of the offset.
"""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Final

CLOCK_OFFSET_VARIABLE: Final = "ELASTRACE_CLOCK_OFFSET_S"
"""Environment variable of a process: seconds to add to its host's monotonic clock."""


def driver_now() -> float:
    """Return the present time on the driver's monotonic clock."""
    return on_driver_clock(time.monotonic())


def on_driver_clock(at_s: float) -> float:
    """Return a time on this host's monotonic clock as one on the driver's."""
    return at_s + _offset_s()


@cache  # read once: after the fork of a worker, and before its first report
def _offset_s() -> float:
    return float(os.environ.get(CLOCK_OFFSET_VARIABLE, "0"))
