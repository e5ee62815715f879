"""Ctrl-C, SIGTERM and a time limit as exceptions, so that ``finally`` blocks clean up."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from harness.errors import render
from harness.machine.failures import tell
from harness.machine.hidden_packages import hidden_packages
from harness.machine.plain_output import plain_streams

TIME_LIMIT_EXIT = 124
"""Exit code of a run that was stopped at ``max_wall_s``, as for the command ``timeout``."""

_STOPPED = (TIME_LIMIT_EXIT, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes after which the process can end without clean-up."""
_AGAIN_S = 0.05
"""Seconds after which a signal that a destructor swallowed is sent again, so that the destructor
can end."""
_MOST_S = 1.5
"""Seconds from Ctrl-C to the end of a command that has nothing to save."""


class Interrupted(BaseException):
    """Request by a signal to stop. It is not an ``Exception``, so that handlers of failures do not
    catch it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """Exit code: 130 after Ctrl-C, 143 after SIGTERM, 124 at the time limit."""
        return TIME_LIMIT_EXIT if self.signum == signal.SIGALRM else 128 + self.signum


def run_command(main: Callable[[], int]) -> NoReturn:
    """Run a command's ``main`` and exit with its code; after Ctrl-C exit with 130, without a
    traceback.

    A command is refused if its packages are hidden, because it would run other code. Control
    characters in its output are spelt out (``plain_output``). A failure of a disk, a file or a
    closed pipe is reported in one line (``failures.tell``).

    If the command was started with SIGINT ignored (in the background of a shell script, or by a
    ``trap '' INT``), it keeps ignoring SIGINT. So do its processes; SIGTERM ends it.
    """
    refuse_hidden()
    ctrl_c = _CtrlC()
    with ctrl_c, plain_streams():
        try:
            code = _code_of(main)
        except BaseException as error:
            if ctrl_c.came:
                print("Stopped.", file=sys.stderr)
                code = 130
            elif isinstance(error, (OSError, UnicodeDecodeError)):
                code = tell(error)
            else:
                raise
    if ctrl_c.came or code in _STOPPED:
        _leave(code)
    sys.exit(code)


def refuse_hidden() -> None:
    """Exit with 2 if something in the current folder hides a package of Elastrace."""
    if problems := hidden_packages():
        print(render(problems), file=sys.stderr)
        sys.exit(2)


def _leave(code: int) -> NoReturn:
    """End without the interpreter's own shutdown, for which libraries such as MLflow need seconds.

    Every ``finally`` of the command has run already.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _code_of(main: Callable[[], int]) -> int:
    """Return the exit code of a command once all its output is written."""
    try:
        code: Any = main()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    return int(code or 0)


class _CtrlC:
    """Handler that turns SIGINT into one ``KeyboardInterrupt``, and ends the process if that has no
    effect.

    Destructors and modules that are being imported may swallow an exception. The rest of the
    command may then wait without end, so the process ends ``_MOST_S`` later in any case. Its
    workers die with it, because the kernel kills them (``parent_death``).
    """

    def __init__(self) -> None:
        self.came = False
        self._before: Callable[[int, FrameType | None], Any] | int | None = signal.SIG_DFL

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._come)

    def __exit__(self, *_: object) -> None:
        # After the first Ctrl-C, later ones are ignored to the end of the process.
        if not self.came and self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._before)

    def _come(self, _signum: int, _frame: FrameType | None) -> None:
        if self.came:
            return
        self.came = True
        end = threading.Timer(_MOST_S, _end)
        end.daemon = True
        end.start()
        sys.unraisablehook = _end  # a destructor has swallowed it
        raise KeyboardInterrupt


def _end(*_: object) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"Stopped.\n")
    os._exit(130)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Let Ctrl-C end this process at once, without output, except within ``interruptible``.

    Use it for commands that have nothing to clean up. Elsewhere Ctrl-C is a ``KeyboardInterrupt``,
    which destructors and modules that are being imported may swallow. The process would then
    continue.
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

    Later signals are ignored until the block is left, so that they cannot cut the clean-up short. A
    SIGINT that was ignored before is ignored inside as well.

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

    def again(unraisable: sys.UnraisableHookArgs) -> None:
        """Send the signal again, because a destructor has swallowed its exception."""
        nonlocal asked
        if not isinstance(unraisable.exc_value, Interrupted):
            hook(unraisable)
            return
        asked = False
        sender = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), unraisable.exc_value.signum))
        sender.daemon = True
        sender.start()

    hook, sys.unraisablehook = sys.unraisablehook, again
    before = {signum: signal.getsignal(signum) for signum in signals}
    if before[signal.SIGINT] is signal.SIG_IGN:
        del before[signal.SIGINT]
    for signum in before:
        signal.signal(signum, stop)
    if max_wall_s is not None:
        signal.setitimer(signal.ITIMER_REAL, max_wall_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        sys.unraisablehook = hook
