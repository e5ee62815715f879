"""Failures of the machine in a live run, and the rule for when they end the run.

A full disk, or a launcher that lost its processes, says nothing about a job, so the job goes on
from its last checkpoint. Such a failure never ends a job, because that end would be taken for a
result. If the machine fails a job again and again, the run fails.
"""

from __future__ import annotations

from harness.engines.live.job import LiveJob
from harness.errors import RunError

MOST_IN_A_ROW = 5
"""Failures of the machine in a row, without progress of the job, after which the run fails."""


class MachineError(RunError):
    """Failure of the machine that ends the run; the text names the jobs and the reasons."""


class MachineFailures:
    """Counter of consecutive failures of the machine for each job."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._furthest: dict[str, float] = {}
        """Most samples that each job had done when the machine failed it."""
        self._reasons: dict[str, str] = {}
        self.total = 0
        """Failures over all jobs."""

    def note(self, job: LiveJob, samples_done: float, reason: str) -> None:
        """Count a failure.

        Args:
            job: the job whose workers it ended.
            samples_done: samples done by the job just before.
            reason: reason as a message.

        Raises:
            MachineError: there were too many.
        """
        self.total += 1
        job_id = job.spec.job_id
        if samples_done > self._furthest.get(job_id, -1.0):
            self._furthest[job_id] = samples_done
            self._counts[job_id] = 0
        self._counts[job_id] += 1
        self._reasons[job_id] = reason
        if self._counts[job_id] >= MOST_IN_A_ROW:
            told = "; ".join(
                f"job {name}, {count} times in a row: {self._reasons[name]}"
                for name, count in self._counts.items()
                if count > 1 or name == job_id
            )
            raise MachineError(
                f"the machine failed, not a program ({told}). Nothing is stored: correct it (free"
                " space on the disk, or memory), and give the same command again"
            )
