"""What one elastic job knows of itself, and how it says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from harness.contracts.engine import Change
from harness.contracts.training import Report, ReportKind
from systems.runtime.driven_job import Saved
from systems.runtime.job_life import Phase


class Account:
    """Kept by the job's state machine, for as long as the job has its name."""

    def __init__(
        self, job_id: str, target_step: int, report: Callable[[Report], None], serial: int
    ) -> None:
        self.serial = serial
        """Counts workers, stores and generations alike, so that no two of a kind are called
        the same, whatever became of those before."""
        self.phase = Phase.IDLE
        self.change: Change | None = None
        """The one in flight."""
        self.step = 0
        self.samples = 0
        self.target_step = target_step
        self.checkpoint: Saved | None = None
        """The last one that is on the disk."""
        self.phases_s: dict[str, float] = {}
        """Of the change in flight."""
        self._job_id = job_id
        self._report = report
        self._step_s = 0.0

    def next_number(self) -> int:
        """A number that nothing of this job has had."""
        self.serial += 1
        return self.serial

    def stand(self, message: Mapping[str, Any]) -> None:
        """The job is where a worker says."""
        self.step, self.samples = message["step"], message["samples"]
        self._step_s = message.get("step_s", 0.0)

    def go_back(self) -> None:
        """To the last checkpoint, which is where the job stands without workers."""
        self.step = self.checkpoint.step if self.checkpoint else 0
        self.samples = self.checkpoint.samples if self.checkpoint else 0
        self._step_s = 0.0

    def accept(self, change: Change) -> None:
        """A change begins."""
        self.change = change
        self.phases_s = {}
        self.say(ReportKind.ACCEPTED)

    def done(self, stopping_time_s: float | None = None) -> None:
        """The change is done."""
        self.say(ReportKind.DONE, stopping_time_s=stopping_time_s, phases_s=dict(self.phases_s))
        self.change = None

    def failed(self, reason: str) -> None:
        """The change has failed; the job is as before."""
        self.say(ReportKind.FAILED, reason=reason)
        self.change = None

    def retry(self, reason: str) -> None:
        """The change cannot begin now; the job is as it is."""
        self.say(ReportKind.RETRY, reason=reason)
        self.change = None

    def say(self, kind: ReportKind, *, about_change: bool = True, **details: Any) -> None:
        """Report a fact, as one about the change in flight, if there is one, or not."""
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
