"""Progress and phase of one elastic job, and its reports to the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change
from systems.runtime.driver.ending import Phase
from systems.runtime.driver.job_protocol import Saved
from systems.runtime.wire.messages import Progress


class JobStatus:
    """Progress, phase and change of one job; kept over all its starts and resumes."""

    def __init__(
        self, job_id: str, target_step: int, report: Callable[[Report], None], serial: int
    ) -> None:
        self.serial = serial
        """Common counter of workers, stores and generations, so that no name is used twice."""
        self.phase = Phase.IDLE
        self.change: Change | None = None
        """Change in flight, if any."""
        self.step = 0
        self.samples = 0
        self.target_step = target_step
        self.checkpoint: Saved | None = None
        """Last checkpoint that is on the disk."""
        self.phases_s: dict[str, float] = {}
        """Phases of the change in flight, seconds each."""
        self._job_id = job_id
        self._report = report
        self._step_s = 0.0

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
        self.step = self.checkpoint.step if self.checkpoint else 0
        self.samples = self.checkpoint.samples if self.checkpoint else 0
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

    def say(self, kind: ReportKind, *, about_change: bool = True, **details: Any) -> None:
        """Report a fact; with ``about_change``, as one about the change in flight, if any."""
        change = self.change if about_change else None
        self._report(
            Report(
                kind=kind,
                job_id=self._job_id,
                at_s=time.monotonic(),
                change_id=change.change_id if change is not None else None,
                step=self.step,
                samples=self.samples,
                step_s=self._step_s if self.phase is Phase.RUNNING else 0.0,
                **details,
            )
        )
