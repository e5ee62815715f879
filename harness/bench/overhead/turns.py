"""Programs that take turns on the same cores: one runs while all others are stopped.

The programs are measured within seconds of each other, many times over, so that the drift of the
machine affects all alike. Programs that run one after the other differ by more than the overhead.
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

from harness.machine.child_process import PointProcess, stop_all

Name = TypeVar("Name", bound=str)
_GRACE_S = 60.0
_LOOK_S = 0.02
"""Seconds between two checks whether a program has begun."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A period in which one program had the cores to itself; ``time.monotonic``."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Program:
    """A program that takes turns with others."""

    process: PointProcess
    """The process of the program; signals also go to all its descendants."""
    has_begun: Callable[[], bool]
    """Function that returns whether the program has begun to train; until then it runs alone,
    untimed."""


def take_turns(
    programs: Mapping[Name, Program], turn_s: float, drawn: random.Random
) -> list[dict[Name, Turn]]:
    """Start programs one after the other, let them take turns until one ends, then let all finish.

    The turns start when all programs have begun.

    Args:
        programs: by name.
        turn_s: length of a turn, seconds.
        drawn: draws the order of starting, since it makes equal programs differ, and the order of
            every round.

    Returns:
        The complete rounds, each with one turn for each name.
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
        # Continue all first: a stopped process cannot handle SIGTERM.
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
    """Return the periods of the steps in a turn, without the first.

    The first step is left out because another program has filled the caches.

    Args:
        turn: the turn that contains the steps.
        started: when each step started, ascending, ``time.monotonic``.
    """
    own = started[bisect_left(started, turn.began) : bisect_right(started, turn.ended)]
    return [later - earlier for earlier, later in pairwise(own)][1:]


def _wait_for_end(process: PointProcess, timeout_s: float) -> bool:
    """Wait for a process; return whether it ended within this time."""
    handle = os.pidfd_open(process.pid)
    try:
        return bool(wait([handle], timeout_s))
    finally:
        os.close(handle)


def _freeze(process: PointProcess) -> None:
    """Stop a process and its descendants, parents first, until no new one has appeared."""
    frozen: set[psutil.Process] = set()
    while True:
        new = [found for found in _tree(process) if found not in frozen]
        if not new:
            return
        for found in new:
            _tell(found.suspend)
        frozen.update(new)


def _thaw(process: PointProcess) -> None:
    """Continue a process and its descendants, children first.

    The process itself continues last, when its descendants already run.
    """
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
