"""malloc keeps what a training step frees, for the next step.

Every step allocates the same activations and gradients, some hundred megabytes, and frees them.
glibc's malloc gives what is free at the end of its heap back to the system, so that every step
takes the same pages again, each through a page fault, zeroed: 30,000 to 60,000 faults and a tenth
of a step of ResNet50 and Transformer (small) on one core. Kept, the heap has the same peak, and
holds it between the steps too. Workers keep theirs (scripts of users are left alone); what is
compared with them has to have the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

MMAP_FROM_BYTES = 32 << 20
"""Blocks of this size and above are mappings of their own, and go when they are freed: as malloc
itself has it at most. More in the heap would be holes that the next block, with its alignment, may
not fit into."""
TRIM_ABOVE_BYTES = (1 << 31) - 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_CHOSEN = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Who sets one of these has chosen a heap, or another malloc."""


def keep_heap() -> bool:
    """Once in a process that trains; whether its heap is kept from now on.

    False where the environment says something else about malloc, and where it is not glibc's.
    """
    if sys.platform != "linux" or _is_chosen():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    # Setting one of them ends malloc's own adjusting of both: blocks from 128 KiB on would then be
    # mappings of their own, which is worse than what this is against.
    return bool(mallopt(_M_MMAP_THRESHOLD, MMAP_FROM_BYTES)) and bool(
        mallopt(_M_TRIM_THRESHOLD, TRIM_ABOVE_BYTES)
    )


def environment() -> Mapping[str, str]:
    """With it a process of somebody else's code has from its start the heap that workers here have:
    nothing where the environment says something else about malloc."""
    if _is_chosen():
        return {}
    return {
        "MALLOC_MMAP_THRESHOLD_": str(MMAP_FROM_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(TRIM_ABOVE_BYTES),
    }


def _is_chosen() -> bool:
    return any(name.startswith(_CHOSEN) for name in os.environ)
