"""Shared parts of commands that measure trials: order, progress, and exit."""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from harness.errors import Problem, UserError, render
from harness.machine.interrupts import Interrupted
from harness.sweep.progress import SweepProgress

T = TypeVar("T")


def drawn_rounds(cells: Sequence[T], trials: int, drawn: random.Random) -> list[tuple[T, int]]:
    """Return all trials: each cell once, in drawn order, then each a second time, and so on."""
    return [
        (cell, number) for number in range(trials) for cell in drawn.sample(list(cells), len(cells))
    ]


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder of trials for this command alone.

    Two commands would measure each other's load, and both would add a trial of the same number. The
    lock is on the folder itself: no file is left, and the lock ends with its process.

    Args:
        folder: folder of the record; made if it is missing.

    Raises:
        UserError: another command holds the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for its end, or give another folder"
            problem = Problem(f"--out {folder}", "another command writes there", hint)
            raise UserError([problem]) from None
        yield
    finally:
        os.close(descriptor)


def one_by_one(
    missing: Sequence[T],
    num_found: int,
    name: Callable[[T], str],
    run: Callable[[T], str],
    guess_s: float,
) -> None:
    """Run trials one after the other, with progress.

    Args:
        missing: the trials.
        num_found: number of trials that are finished already.
        name: returns a trial's name for users.
        run: measures a trial and keeps it; returns how it ended, in a word.
        guess_s: expected seconds of a trial, until one has been measured.
    """
    taken_s: list[float] = []
    with SweepProgress(num_found + len(missing), num_found) as progress:
        for index, trial in enumerate(missing):
            usual_s = sum(taken_s) / len(taken_s) if taken_s else guess_s
            progress.waiting(usual_s * (len(missing) - index), [name(trial)])
            began = time.monotonic()
            ended = run(trial)
            taken_s.append(time.monotonic() - began)
            progress.ended(name(trial), ended, taken_s[-1])


def exit_code(main: Callable[[], int], *failures: type[Exception]) -> int:
    """Return the exit code of a command that keeps its finished trials.

    The code is the command's own; 1 after one of the failures, 2 after wrong arguments, 130 or 143
    after a stop. The reason is printed without a traceback.
    """
    try:
        return main()
    except UserError as error:
        print(render(error.problems), file=sys.stderr)
        return 2
    except failures as error:
        print(f"{error}\nFinished trials are kept; the same command continues.", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        print("Stopped. Finished trials are kept; the same command continues.", file=sys.stderr)
        return interrupted.exit_code
