"""Work that takes only the time which others leave.

A process that lowers its priority cannot raise it again without privileges. On Linux priority
belongs to threads, though: what should give way runs on a thread of its own, which ends with it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

_LOWEST = 19
_M_ARENA_MAX = -8
"""Of glibc's ``malloc.h``."""

Result = TypeVar("Result")


def giving_way(call: Callable[[], Result]) -> Result:
    """The result of a call that is made on a thread of the lowest priority.

    Memory that the call frees is found again by other threads, so that what it has warmed up
    is warm for them (with glibc; elsewhere they may ask the kernel for memory of their own).

    Raises:
        BaseException: what the call raises.
    """
    _share_memory()
    outcome: Future[Result] = Future()

    def run() -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="giving-way")
    thread.start()
    thread.join()
    return outcome.result()


def _share_memory() -> None:
    """Have all threads allocate from one arena: else each gets pages of its own."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
