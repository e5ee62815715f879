"""Detection of live jobs that give no sign of life although their workers live."""

from __future__ import annotations

from collections.abc import Iterable

from harness.contracts.change import ChangeKind
from harness.engines.live.job import LiveJob
from harness.errors import RunError
from harness.files.safe_names import file_name

HELD_UP_S = 2.0
"""Longest time between two looks that counts as usual, because the engine polls twice a second.
After a longer time the engine itself was held up."""
_STARTS = (ChangeKind.START, ChangeKind.RESUME)


class EngineError(RunError):
    """Dead end of the live engine; the text says which job, and where its log is."""


class SilentJobs:
    """Detector of jobs that have reported nothing for too long. Times are ``time.monotonic``."""

    def __init__(self, limit_s: float) -> None:
        """Set ``limit_s``, the longest silence of a job that has workers."""
        self._limit_s = limit_s
        self._looked_at: float | None = None

    def look(self, jobs: Iterable[LiveJob], now: float) -> dict[str, str]:
        """Return the jobs that are silent for too long, each with the reason as a message.

        Call it after every poll, also while other jobs report. A job that starts or resumes is left
        to the backend's own time-out. A delay of the engine itself is not a job's silence: after a
        late look, every job is forgiven the time since the last look.
        """
        before, self._looked_at = self._looked_at, now
        held_up_s = 0.0 if before is None else now - before
        found = {}
        for job in jobs:
            if held_up_s > HELD_UP_S:
                job.heard_at = max(job.heard_at, min(now, job.heard_at + held_up_s))
            silent_s = now - job.heard_at
            starts = job.change is not None and job.change.kind in _STARTS
            if (job.num_workers or job.in_flight) and not starts and silent_s > self._limit_s:
                found[job.spec.job_id] = (
                    f"no sign of life for {silent_s:.0f} s after step {job.steps_executed}"
                    f" (engine.stall_timeout_s, to be raised if steps really are that long);"
                    f" logs: jobs/{file_name(job.spec.job_id)}"
                )
        return found
