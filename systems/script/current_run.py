"""Run of the script in this process, which the calls of ``api`` find here."""

from __future__ import annotations

from typing import Any, Protocol

from systems.script.program import ScriptProgram
from systems.script.step_calls import StepCalls


class Run(StepCalls, Protocol):
    """Part of a script's run that the calls of ``api`` use; ``run.ScriptRun`` implements it."""

    program: ScriptProgram
    step_at_hand: int

    @property
    def rank(self) -> int:
        """Present rank of this worker, from 0."""
        ...

    @property
    def num_workers(self) -> int:
        """Present number of workers of the job."""
        ...

    @property
    def is_over(self) -> bool:
        """True if no step follows in any worker."""
        ...

    def record(self, metrics: dict[str, float]) -> None:
        """Add metrics to the results."""
        ...

    def first_epoch(self) -> int:
        """Return the epoch that this worker begins with, once it can train."""
        ...

    def draw(self, epoch: int | None) -> Any:
        """Return this worker's next batch; None when the epoch, or all training, is over."""
        ...

    def end_batch(self, loss: float | None) -> None:
        """Log the step that the last update has ended."""
        ...

    def shutdown(self) -> bool:
        """Part from the other workers. Return True in the worker that is to go on."""
        ...


_runs: list[Run] = []
"""Run of this process; empty if it is no worker of a job."""


def begin(run: Run) -> None:
    """Make this process a worker; to be called before the script runs."""
    _runs.append(run)


def current_run() -> Run | None:
    """Return the run of this process; None if the script trains alone."""
    return _runs[0] if _runs else None
