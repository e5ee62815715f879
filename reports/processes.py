"""Work on all cores: most of a report's time is spent on drawing."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from harness.parent_death import die_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

_shared: tuple[Callable[[Any], Any], Sequence[Any]] | None = None
"""Of a process that works: what it was forked with, since figures and runs are costly to send."""


def each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What ``work`` gives for every item, in order; in processes of its own where that pays.

    Args:
        work: of one item; what it changes elsewhere is lost, but for files.
        items: begun in this order, so that long ones should come first.
    """
    num_processes = min(len(items), os.cpu_count() or 1)
    is_worker = _shared is not None
    if is_worker or num_processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(item) for item in items]
    parent = os.getpid()
    with ProcessPoolExecutor(
        num_processes, multiprocessing.get_context("fork"), _begin, (parent, (work, items))
    ) as pool:
        try:
            # A fork that Ctrl-C met before ``_begin`` would print a traceback, and break the pool.
            held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                begun = [pool.submit(_work, number) for number in range(len(items))]
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
            return [each.result() for each in begun]
        except BaseException:
            # Leaving the pool waits for all that was begun, minutes of drawing perhaps. Nothing is
            # cancelled: a pool whose processes are gone stumbles over what is (InvalidStateError).
            for child in multiprocessing.active_children():
                child.kill()
            raise


def _begin(parent: int, shared: tuple[Callable[[Any], Any], Sequence[Any]]) -> None:
    global _shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(parent)
    _shared = shared


def _work(number: int) -> Any:
    assert _shared is not None
    work, items = _shared
    return work(items[number])
