"""Ctrl-C, SIGTERM and a time limit as exceptions, so that ``finally`` blocks clean up."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from harness.hidden import hidden_packages
from harness.problems import render

TIME_LIMIT_EXIT = 124
"""Exit code of a run stopped at ``max_wall_s`` (as ``timeout`` has it)."""


class Interrupted(BaseException):
    """A signal asked to stop. Not an ``Exception``: nothing may take it for a failure."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, 124 at the time limit."""
        return TIME_LIMIT_EXIT if self.signum == signal.SIGALRM else 128 + self.signum


def run_command(main: Callable[[], int]) -> NoReturn:
    """Exit with the code of a command's ``main``; after Ctrl-C with 130, and no traceback.

    A command is refused where its packages are hidden: it would run other code.
    """
    if problems := hidden_packages():
        print(render(problems), file=sys.stderr)
        sys.exit(2)
    try:
        code = main()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        code = 130
    sys.exit(code)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Ctrl-C ends this process where it is, without a word, but within ``interruptible``.

    For what has nothing to clean up. Elsewhere Ctrl-C is a ``KeyboardInterrupt``, which modules
    that are being imported and destructors may swallow: the process would go on.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible(max_wall_s: float | None = None) -> Iterator[None]:
    """Raise ``Interrupted`` in the main thread on the first SIGINT, SIGTERM or the limit.

    Later signals are ignored until the block is left, so that cleaning up is not cut short.

    Args:
        max_wall_s: seconds of wall clock after which SIGALRM is delivered; None: never.
    """
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    asked = False

    def stop(signum: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise Interrupted(signum)

    before = {signum: signal.signal(signum, stop) for signum in signals}
    if max_wall_s is not None:
        signal.setitimer(signal.ITIMER_REAL, max_wall_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum, handler in before.items():
            signal.signal(signum, handler)
