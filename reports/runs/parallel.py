"""Parallel work on all cores, because drawing takes most of a report's time."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from harness.machine.parent_death import die_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

_shared: tuple[Callable[[Any], Any], Sequence[Any]] | None = None
"""Function and items that a worker process inherits by fork, since sending them would be costly."""


def each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the results of ``work`` for all items, in order, from several processes if possible.

    Args:
        work: function of one item; its changes to objects are lost, its files stay.
        items: items to work on; work begins in this order, so long ones should come first.
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
            # SIGINT is blocked here: Ctrl-C in a fork before ``_begin`` would print a traceback and
            # break the pool.
            held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                begun = [pool.submit(_work, number) for number in range(len(items))]
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
            return [each.result() for each in begun]
        except BaseException:
            # The children are killed because leaving the pool would wait for all work that was
            # begun, perhaps minutes of drawing. No future is cancelled: a pool whose processes are
            # gone fails on a cancelled future (InvalidStateError).
            for child in multiprocessing.active_children():
                child.kill()
            raise


def _begin(parent: int, shared: tuple[Callable[[Any], Any], Sequence[Any]]) -> None:
    global _shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the waiting parent handles Ctrl-C
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(parent)
    _shared = shared


def _work(number: int) -> Any:
    assert _shared is not None
    work, items = _shared
    return work(items[number])
