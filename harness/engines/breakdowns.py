"""Programs that crash or fail by the trace, in a live run: their workers are really killed.

A sound program cannot be made to crash from outside, so its workers end as if it had: at once,
by SIGKILL, and without a word to anybody. So does every one that is started for the job before
its backend has said that it lost them all; what serves a job beside its workers lives on.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.contracts.training import Report, ReportKind
from harness.engines.live_job import LiveJob
from harness.faults.watched import WatchedLauncher

FAILED = "its program failed"
"""Why a job ended whose breakdown was fatal."""


@dataclass
class _Breakdown:
    slots: tuple[int, ...]
    """On which no worker lives until its end."""
    is_fatal: bool


class Breakdowns:
    """Those that are under way, by job."""

    def __init__(self, processes: WatchedLauncher | None) -> None:
        self._processes = processes
        self._of: dict[str, _Breakdown] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._of

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, job: LiveJob, *, is_fatal: bool) -> None:
        """Kill all workers of a job; one that has none, nor is getting any, does not run, and one
        whose work is done has only its end before it."""
        job_id = job.spec.job_id
        if job_id in self._of:
            self._of[job_id].is_fatal |= is_fatal
        elif (job.slots or job.in_flight) and not job.is_ending:
            self._of[job_id] = _Breakdown((), is_fatal)
            self.widen(job)

    def widen(self, job: LiveJob) -> None:
        """A job may have been given more slots while its workers die: nobody starts there."""
        broken = self._of.get(job.spec.job_id)
        if broken is None:
            return
        coming = job.change.slots if job.change is not None else ()
        more = {*job.slots, *coming} - {*broken.slots}
        broken.slots += tuple(sorted(more))
        self._watched.take_down(more)

    def settle(self, job: LiveJob, report: Report) -> bool:
        """After a report of the job was noted: its breakdown is over once it has no workers and is
        getting none. Whether the job is over with it."""
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
