"""Programs that take turns: one of them goes on while all others are stopped.

What is compared is measured within seconds of each other, many times over, so that the drift of
a machine hits it alike; programs that are started one after the other differ by more than what
is looked for.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import wait
from typing import TypeVar

import psutil

from harness.processes import PointProcess, stop_all

Name = TypeVar("Name", bound=str)
_GRACE_S = 60.0
_LOOK_S = 0.02
"""Between two looks at whether a program has begun."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch in which one program had the cores to itself; ``time.monotonic``."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Program:
    """What takes turns."""

    process: PointProcess
    """With all that it starts."""
    has_begun: Callable[[], bool]
    """Whether it trains by now. Until then it goes on alone, whatever that takes."""


def take_turns(
    programs: Mapping[Name, Program], turn_s: float, drawn: random.Random
) -> list[dict[Name, Turn]]:
    """Start programs, one after the other in drawn order, and let them go on by turns once all
    have begun, until the first of them ends; then let all go on to their end.

    Args:
        programs: by name.
        turn_s: length of a turn, seconds.
        drawn: draws the order of starting, since equal programs differ by it too, and that of
            every round.

    Returns:
        The whole rounds, each with one turn for each name.
    """
    started: list[PointProcess] = []
    try:
        for program in drawn.sample(list(programs.values()), len(programs)):
            program.process.start()
            started.append(program.process)
            while not program.has_begun():
                if _wait_for_end(program.process, _LOOK_S):
                    return []
            _freeze(program.process)
        return _rounds({name: p.process for name, p in programs.items()}, turn_s, drawn)
    except BaseException:
        for process in started:
            _thaw(process)
        stop_all(started, signal.SIGTERM, _GRACE_S, _say)
        raise
    finally:
        for process in started:
            _thaw(process)
            process.wait()


def _rounds(
    processes: Mapping[Name, PointProcess], turn_s: float, drawn: random.Random
) -> list[dict[Name, Turn]]:
    rounds: list[dict[Name, Turn]] = []
    while True:
        turns: dict[Name, Turn] = {}
        for name in drawn.sample(list(processes), len(processes)):
            process = processes[name]
            _thaw(process)
            began = time.monotonic()
            has_ended = _wait_for_end(process, turn_s)
            turns[name] = Turn(began, time.monotonic())
            if has_ended:
                return rounds
            _freeze(process)
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


def _wait_for_end(process: PointProcess, timeout_s: float) -> bool:
    """Whether it ended within this time."""
    handle = os.pidfd_open(process.pid)
    try:
        return bool(wait([handle], timeout_s))
    finally:
        os.close(handle)


def _freeze(process: PointProcess) -> None:
    """Stop it and all that it has started; a parent first, so that it starts no more."""
    frozen: set[psutil.Process] = set()
    while True:
        new = [found for found in _tree(process) if found not in frozen]
        if not new:
            return
        for found in new:
            _tell(found.suspend)
        frozen.update(new)


def _thaw(process: PointProcess) -> None:
    """Let it go on; the first process last, so that it finds the others at work."""
    for found in reversed(_tree(process)):
        _tell(found.resume)


def _tree(process: PointProcess) -> list[psutil.Process]:
    try:
        first = psutil.Process(process.pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _tell(signal_it: Callable[[], None]) -> None:
    try:
        signal_it()
    except psutil.NoSuchProcess:
        return  # it has ended meanwhile


def _say(text: str) -> None:
    print(text, file=sys.stderr)
