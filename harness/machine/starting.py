"""Handling of Ctrl-C while a command is still importing its modules."""

from __future__ import annotations

import signal
import sys


def end_at_once_until_main() -> None:
    """Let Ctrl-C end the process without output until ``run_command`` takes over.

    Packages with commands call it when they are imported. It acts only while ``python -m`` looks
    for the command (``sys.argv[0]`` is ``-m`` then), and only if SIGINT is not ignored. Otherwise
    Ctrl-C would be a ``KeyboardInterrupt`` in the middle of an import. That shows a traceback, or a
    module swallows it and the process continues.
    """
    if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
