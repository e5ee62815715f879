"""Processes that die with their parent, and parents that keep their descendants."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
"""C library, loaded before any fork: between fork and exec nothing may be imported."""


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process (SIGKILL) when its parent ends, however it ends.

    Only Linux can do that; elsewhere workers end when the control connection closes. The signal
    comes when the *thread* that started this process ends.

    Args:
        parent: process id of the parent; if it has gone already, this process exits.
    """
    if _LIBC is None:
        return
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # the parent ended before prctl took effect
        os._exit(1)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parent has ended.

    So processes that a worker has started can still be found after the worker has ended. Only Linux
    can do that; elsewhere only the process group is ended.

    Raises:
        OSError: the kernel refuses.
    """
    if _LIBC is not None and _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
