"""Progress on the terminal: a bar on a terminal, otherwise a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from harness import replay
from harness.machine.terminal import console, seconds
from harness.sweep.eta import Pace

_PLAIN_EVERY_S = 15.0


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console(stderr=True),
        transient=True,
    )


class _Shown:
    """Bar on a terminal, or lines at most every few seconds."""

    def __init__(
        self,
        total: int,
        done: int,
        what: str,
        is_shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bar = _bar() if is_shown and sys.stderr.isatty() else None
        self._total, self._done, self._what = total, done, what
        self._clock = clock
        self._began_s = self._said_s = clock()
        self._task = (
            self._bar.add_task(what, total=total, completed=done, note="") if self._bar else None
        )

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, done: int, left_s: float | None, note: str) -> None:
        """Show the progress; without a terminal only after some seconds.

        ``left_s`` is the expected seconds left; None: unknown.
        """
        self._done = done
        left = "time left unknown" if left_s is None else f"about {seconds(left_s)} left"
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, note=f"{left}; {note}")
        elif (now_s := self._clock()) - self._said_s >= _PLAIN_EVERY_S:
            share = done / self._total if self._total else 1.0
            self.say(
                f"{self._what}: {done:,} of {self._total:,} ({share:.0%}) after"
                f" {seconds(now_s - self._began_s)}, {left}; {note}"
            )

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self._said_s = self._clock()
        if self._bar:
            self._bar.console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)


class RunProgress(_Shown):
    """Progress of one run, by its jobs that have ended."""

    def __init__(
        self, num_jobs: int, is_shown: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(num_jobs, 0, "jobs ended", is_shown, clock)
        self._pace = Pace()

    def show(self, progress: replay.Progress) -> None:
        """Show the state that the replay reports from time to time."""
        share = progress.num_ended / progress.num_jobs
        left_s = self._pace.left_s(share, self._clock())
        note = f"{progress.num_live:,} live jobs, at {seconds(progress.time_s)} of the trace"
        self.update(progress.num_ended, left_s, note)


class SweepProgress(_Shown):
    """Progress of a sweep, by its points that have ended."""

    def __init__(self, num_points: int, num_stored: int) -> None:
        super().__init__(num_points, num_stored, "points")
        self._num_ended = num_stored

    def ended(self, title: str, status: str, wall_s: float) -> None:
        """Show that a point has ended."""
        self._num_ended += 1
        self.say(f"[{self._num_ended}/{self._total}] {title}: {status} in {seconds(wall_s)}")

    def stored_elsewhere(self, title: str) -> None:
        """Show that another command has stored a point."""
        self._num_ended += 1
        self.say(f"[{self._num_ended}/{self._total}] {title}: stored by another command")

    def waiting(self, remaining_s: float, running: Sequence[str]) -> None:
        """Show the running points; none: all remaining points wait for other commands."""
        shown = ", ".join(running[:2]) + (", ..." if len(running) > 2 else "")
        self.update(self._num_ended, remaining_s, f"now {shown or 'waiting'}")
