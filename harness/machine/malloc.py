"""Setting of malloc that keeps the memory freed by a training step for the next step.

Every step allocates the same activations and gradients, some hundred megabytes, and frees them. The
malloc of glibc returns free memory at the end of its heap to the system. So every step takes the
same pages again, each zeroed through a page fault. That is 30,000 to 60,000 faults and a tenth of a
step of ResNet50 and Transformer (small) on one core. A kept heap has the same peak, and holds it
between the steps too. Workers keep their heap (scripts of users are left alone); any program
compared with them must do the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

MMAP_FROM_BYTES = 32 << 20
"""Size from which a block is a separate mapping, which is released when freed; malloc allows no
larger value. Larger blocks in the heap would leave holes that the next block, with its alignment,
may not fit."""
TRIM_ABOVE_BYTES = (1 << 31) - 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_CHOSEN = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Prefixes of variables that already choose a heap, or another malloc."""


def keep_heap() -> bool:
    """Keep the heap of this process, which trains; return whether it is kept. Call this once.

    False if the environment configures malloc otherwise, or if malloc is not glibc's.
    """
    if sys.platform != "linux" or _is_chosen():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    # Both are set, because setting one ends malloc's own adjusting of both. Blocks from 128 KiB on
    # would then be mappings of their own, which costs more than the heap's page faults.
    return bool(mallopt(_M_MMAP_THRESHOLD, MMAP_FROM_BYTES)) and bool(
        mallopt(_M_TRIM_THRESHOLD, TRIM_ABOVE_BYTES)
    )


def environment() -> Mapping[str, str]:
    """Return environment variables that give another program the same heap as workers from its
    start.

    Empty if the environment configures malloc otherwise.
    """
    if _is_chosen():
        return {}
    return {
        "MALLOC_MMAP_THRESHOLD_": str(MMAP_FROM_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(TRIM_ABOVE_BYTES),
    }


def _is_chosen() -> bool:
    return any(name.startswith(_CHOSEN) for name in os.environ)
