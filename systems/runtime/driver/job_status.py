"""Progress and phase of one job, and its reports to the engine; the same for all kinds of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.ending import Ending, Fate, Phase
from systems.runtime.wire.messages import Checkpoint, Finished, Progress, StoppedAtCheckpoint

STARTS = (ChangeKind.START, ChangeKind.RESUME)


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint on disk."""

    path: str
    step: int
    samples: int

    @classmethod
    def of(cls, message: Checkpoint) -> Saved:
        """Return the checkpoint that a worker's message describes."""
        return cls(message.path, message.progress.step, message.progress.samples)


class JobStatus:
    """Progress, phase and change of one job; kept over all its starts and resumptions."""

    def __init__(self, order: TrainingOrder, report: Callable[[Report], None], serial: int) -> None:
        self.serial = serial
        """Last number given to anything of the job: a start, a worker, a store, a generation. A
        later job of the same name counts on from it, so that no two of their processes or logs
        share a name."""
        self.phase = Phase.IDLE
        self.change: Change | None = None
        """Change in flight, or None."""
        self.step = 0
        """Number of steps executed so far."""
        self.samples = 0
        """Number of samples consumed by these steps."""
        self.target_step = order.target_step
        self.checkpoint: Saved | None = None
        """Last checkpoint on disk."""
        self.phases_s: dict[str, float] = {}
        """Phases of the change in flight, seconds each."""
        self.overruns = 0
        """Number of steps that missed their pace."""
        self._order = order
        self._report = report
        self._step_s = 0.0

    @property
    def is_starting(self) -> bool:
        """True if the change in flight starts or resumes the job."""
        return self.change is not None and self.change.kind in STARTS

    def next_number(self) -> int:
        """Return a number that nothing in this job has had yet."""
        self.serial += 1
        return self.serial

    def stand(self, progress: Progress) -> None:
        """Take the job's progress from a worker's message."""
        self.step, self.samples = progress.step, progress.samples
        self._step_s = progress.step_s

    def go_back(self) -> None:
        """Set the progress back to the last checkpoint, all that a job without workers has."""
        at = self.checkpoint
        self.step, self.samples = (at.step, at.samples) if at is not None else (0, 0)
        self._step_s = 0.0

    def accept(self, change: Change) -> None:
        """Begin a change and report it as accepted."""
        self.change = change
        self.phases_s = {}
        self.say(ReportKind.ACCEPTED)

    def done(self, stopping_time_s: float | None = None) -> None:
        """Report the change as done."""
        self.say(ReportKind.DONE, stopping_time_s=stopping_time_s, phases_s=dict(self.phases_s))
        self.change = None

    def failed(self, reason: str) -> None:
        """Report the change as failed; the job is as before."""
        self.say(ReportKind.FAILED, reason=reason)
        self.change = None

    def retry(self, reason: str) -> None:
        """Report that the change cannot begin now; the job is as before."""
        self.say(ReportKind.RETRY, reason=reason)
        self.change = None

    def answer(self, change: Change, kind: ReportKind, reason: str) -> None:
        """Report on a change that is not in flight."""
        self._tell(kind, change, reason=reason)

    def say(self, kind: ReportKind, *, about_change: bool = True, **details: Any) -> None:
        """Report a fact; with ``about_change``, as one about the change in flight, if any."""
        self._tell(kind, self.change if about_change else None, **details)

    # The end of the job's processes.

    def results(self, message: Finished) -> dict[str, float | str]:
        """Return the results of a finished job; those of a paced job include its late steps."""
        late = {"pace_overruns": float(self.overruns)} if self._order.step_floor_s else {}
        return {**message.results, **late}

    def saved(self, message: StoppedAtCheckpoint) -> None:
        """Record the first phases of a stop: the checkpoint is complete, and processes end."""
        self.phases_s["save"] = message.save_s
        # Negative until ``gone`` adds the time at which the last process has ended.
        self.phases_s["stop"] = -message.saved

    def gone(self) -> None:
        """Record that the last process has ended."""
        self.phase = Phase.IDLE
        if self.phases_s.get("stop", 0.0) < 0:
            self.phases_s["stop"] += time.monotonic()

    def close(self, ending: Ending, *, of_machine: bool) -> None:
        """Report how the job has ended; ``of_machine``: a job that was lost is not at fault."""
        if ending.fate in (Fate.SUSPENDED, Fate.STOPPED):
            self.done()
            return
        if ending.fate is Fate.FINISHED:
            self.say(
                ReportKind.FINISHED,
                about_change=False,
                results=ending.results,
                reason=ending.reason,
            )
        else:
            self.go_back()
            if ending.fate is Fate.LOST:
                self.say(ReportKind.LOST, reason=ending.reason, of_machine=of_machine)
            else:
                # Unless the change is a start, the job has failed and not the change.
                about = self.is_starting
                self.say(ReportKind.FAILED, about_change=about, reason=ending.reason)
        self.change = None

    def _tell(self, kind: ReportKind, change: Change | None, **details: Any) -> None:
        self._report(
            Report(
                kind=kind,
                job_id=self._order.job_id,
                at_s=time.monotonic(),
                change_id=change.change_id if change is not None else None,
                step=self.step,
                samples=self.samples,
                step_s=self._step_s if self.phase is Phase.RUNNING else 0.0,
                **details,
            )
        )
