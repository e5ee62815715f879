"""Programs that take turns: one of them goes on while all others are stopped.

What is compared is measured within seconds of each other, many times over, so that the drift of
a machine hits it alike; programs that are started one after the other differ by more than what
is looked for.
"""

from __future__ import annotations

import os
import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import wait
from typing import TypeVar

import psutil

from harness.processes import PointProcess

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch in which one program had the cores to itself; ``time.monotonic``."""

    began: float
    ended: float


def take_turns(
    programs: Mapping[Name, PointProcess], turn_s: float, drawn: random.Random
) -> list[dict[Name, Turn]]:
    """Let programs that have just been started go on by turns until the first of them ends, and
    then all to their end.

    Args:
        programs: by name, each with the processes that it starts.
        turn_s: length of a turn, seconds.
        drawn: draws the order of every round.

    Returns:
        The whole rounds, each with one turn for each name.
    """
    try:
        rounds = _rounds(programs, turn_s, drawn)
    finally:
        for program in programs.values():
            _thaw(program)
    for program in programs.values():
        program.wait()
    return rounds


def _rounds(
    programs: Mapping[Name, PointProcess], turn_s: float, drawn: random.Random
) -> list[dict[Name, Turn]]:
    for program in programs.values():
        _freeze(program)
    rounds: list[dict[Name, Turn]] = []
    while True:
        turns: dict[Name, Turn] = {}
        for name in drawn.sample(list(programs), len(programs)):
            program = programs[name]
            _thaw(program)
            began = time.monotonic()
            has_ended = _wait_for_end(program, turn_s)
            turns[name] = Turn(began, time.monotonic())
            if has_ended:
                return rounds
            _freeze(program)
        rounds.append(turns)


def periods_in(turn: Turn, started: Sequence[float]) -> list[float]:
    """The periods of the steps that lie in a turn, but for the first: it finds the caches as
    another program has left them.

    Args:
        turn: in which they lie.
        started: when each step started, ascending, ``time.monotonic``.
    """
    own = started[bisect_left(started, turn.began) : bisect_right(started, turn.ended)]
    return [later - earlier for earlier, later in pairwise(own)][1:]


def _wait_for_end(program: PointProcess, timeout_s: float) -> bool:
    """Whether it ended within this time."""
    handle = os.pidfd_open(program.pid)
    try:
        return bool(wait([handle], timeout_s))
    finally:
        os.close(handle)


def _freeze(program: PointProcess) -> None:
    """Stop it and all that it has started; a parent first, so that it starts no more."""
    frozen: set[psutil.Process] = set()
    while True:
        new = [process for process in _tree(program) if process not in frozen]
        if not new:
            return
        for process in new:
            _tell(process.suspend)
        frozen.update(new)


def _thaw(program: PointProcess) -> None:
    """Let it go on; the first process last, so that it finds the others at work."""
    for process in reversed(_tree(program)):
        _tell(process.resume)


def _tree(program: PointProcess) -> list[psutil.Process]:
    try:
        first = psutil.Process(program.pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _tell(signal: Callable[[], None]) -> None:
    try:
        signal()
    except psutil.NoSuchProcess:
        return  # it has ended meanwhile
