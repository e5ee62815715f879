"""Handling of Ctrl-C while a command is still importing its modules."""

from __future__ import annotations

import signal
import sys


def end_at_once_until_main(*, is_command: bool | None = None) -> None:
    """Let Ctrl-C end the process without output until ``run_command`` takes over.

    Packages with commands call it when they are imported. It acts only if SIGINT is not ignored.
    Otherwise Ctrl-C would be a ``KeyboardInterrupt`` in the middle of an import. That shows a
    traceback, or a module swallows it and the process continues.

    Args:
        is_command: true if this process is about to run a command. None: if ``python -m`` is
            looking for one (``sys.argv[0]`` is ``-m`` then).
    """
    if is_command is None:
        is_command = sys.argv[:1] == ["-m"]
    if is_command and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
