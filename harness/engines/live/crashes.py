"""Programs that crash or fail by the trace, in a live run: their workers are really killed.

A sound program cannot be made to crash from outside. So its workers end as if it had crashed: at
once, by SIGKILL, and without a message. The same happens to every worker that starts for the job
before its backend has reported the loss of all workers. Processes that only serve the job survive.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.contracts.backend_reports import Report, ReportKind
from harness.engines.live.job import LiveJob
from harness.engines.live.slot_outages import WatchedLauncher

FAILED = "its program failed"
"""Reason recorded for a job that ended by a fatal breakdown."""


@dataclass
class _Breakdown:
    slots: tuple[int, ...]
    """Slots on which no worker lives until the breakdown is over."""
    is_fatal: bool


class Breakdowns:
    """Breakdowns that are under way, by job."""

    def __init__(self, processes: WatchedLauncher | None) -> None:
        self._processes = processes
        self._of: dict[str, _Breakdown] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._of

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, job: LiveJob, *, is_fatal: bool) -> None:
        """Kill all workers of a job.

        Left alone are a job that does not run (no workers, no change in flight) and a job whose
        work is done, because it is about to end.
        """
        job_id = job.spec.job_id
        if job_id in self._of:
            self._of[job_id].is_fatal |= is_fatal
        elif (job.slots or job.in_flight) and not job.is_ending:
            self._of[job_id] = _Breakdown((), is_fatal)
            self.widen(job)

    def widen(self, job: LiveJob) -> None:
        """Take down the slots that the job was given since its breakdown began, so that no worker
        starts there."""
        broken = self._of.get(job.spec.job_id)
        if broken is None:
            return
        coming = job.change.slots if job.change is not None else ()
        # Each slot only once: ``take_down`` counts, and ``settle`` brings each slot up only once.
        more = {*job.slots, *coming} - {*broken.slots}
        broken.slots += tuple(sorted(more))
        self._watched.take_down(more)

    def settle(self, job: LiveJob, report: Report) -> bool:
        """End a job's breakdown once the job has neither workers nor a change in flight. Return
        whether the job is over too.

        Call it after the job has noted the report.
        """
        broken = self._of.get(job.spec.job_id)
        if broken is None or job.num_workers or job.in_flight:
            return False
        del self._of[job.spec.job_id]
        self._watched.bring_up(broken.slots)
        return broken.is_fatal and report.kind is ReportKind.LOST

    @property
    def _watched(self) -> WatchedLauncher:
        assert self._processes is not None, "the launcher is watched where the trace has events"
        return self._processes
