"""Progress on the terminal: a bar where there is one, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from harness import replay
from harness.summary import console, seconds

_PLAIN_EVERY_S = 15.0


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console(stderr=True),
        transient=True,
    )


class _Shown:
    """A bar on a terminal, or lines at most every few seconds."""

    def __init__(self, total: int, done: int, what: str) -> None:
        self._bar = _bar() if sys.stderr.isatty() else None
        self._total, self._done, self._what = total, done, what
        self._said_s = time.monotonic()
        self._task = (
            self._bar.add_task(what, total=total, completed=done, note="") if (self._bar) else None
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

    def update(self, done: int, note: str) -> None:
        """Show how far it is; on no terminal only when a while has passed."""
        self._done = done
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, note=note)
        elif time.monotonic() - self._said_s >= _PLAIN_EVERY_S:
            self.say(f"{self._what}: {done:,} of {self._total:,}, {note}")

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self._said_s = time.monotonic()
        if self._bar:
            self._bar.console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)


class RunProgress(_Shown):
    """Progress of one run, by its jobs that have ended."""

    def __init__(self, num_jobs: int) -> None:
        super().__init__(num_jobs, 0, "jobs ended")

    def show(self, progress: replay.Progress) -> None:
        """What the replay reports now and then."""
        note = f"{progress.num_running} running, at {seconds(progress.time_s)} of the trace"
        self.update(progress.num_ended, note)


class SweepProgress(_Shown):
    """Progress of a sweep, by its points that have ended."""

    def __init__(self, num_points: int, num_stored: int) -> None:
        super().__init__(num_points, num_stored, "points")
        self._num_ended = num_stored

    def ended(self, title: str, status: str, wall_s: float) -> None:
        """A point has ended."""
        self._num_ended += 1
        self.say(f"[{self._num_ended}/{self._total}] {title}: {status} in {seconds(wall_s)}")

    def waiting(self, remaining_s: float, running: Sequence[str]) -> None:
        """Points are running."""
        shown = ", ".join(running[:2]) + (", ..." if len(running) > 2 else "")
        self.update(self._num_ended, f"about {seconds(remaining_s)} left; now {shown}")
