"""Fault injector, which strikes workers through the launcher, phase markers and the backend.

The injector sees the processes that start and end, the requested changes, the reports, and the
marks of workers that keep one. No backend knows of it. It runs inside the backend's ``poll``. So
while it waits for a mark, it looks for a millisecond at a time and lets the backend continue in
between.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases, Reference
from harness.contracts.backend import Backend
from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change
from harness.contracts.launcher import Launcher
from harness.contracts.process import Warmth
from harness.contracts.training_order import TrainingOrder
from harness.engines.live.slot_outages import WatchedLauncher
from harness.faults.aim import Aim, Crowd, Moments
from harness.faults.marks import SeenMarks
from harness.faults.plan import ANY, FaultPlan
from harness.faults.slow_workers import SlowWorkers
from harness.results.records import FaultRecord, SlowingRecord

_ENDS_CHANGE = (
    ReportKind.DONE,
    ReportKind.FAILED,
    ReportKind.RETRY,
    ReportKind.LOST,
    ReportKind.FINISHED,
)
_RECOVER = "recover"


class FaultyBackend:
    """Backend that strikes its own workers while it is polled; ``inner`` does everything else."""

    def __init__(
        self, inner: Backend, launcher: WatchedLauncher, plan: FaultPlan, seed: str
    ) -> None:
        self.name = inner.name
        self._inner = inner
        self._launcher = launcher
        self._plan = plan
        self._drawn = random.Random(f"faults {seed}")
        self._moments = Moments(plan, self._drawn)
        # A folder of this host, because the marks are shared memory of this host.
        self._folder = tempfile.TemporaryDirectory(prefix="marks-")
        self._marks = SeenMarks(Path(self._folder.name))
        self._changes: dict[str, tuple[Change, float]] = {}
        """Change in flight of each job, and the time when it was requested."""
        self._quiet_since = time.monotonic()
        self._due: tuple[float, str] | None = None
        """Time and moment of the next fault."""
        self._aim: Aim | None = None
        """Fault that is due and waits for its moment."""
        self._struck: set[int] = set()
        self._num_aimed = 0
        self._faults: list[FaultRecord] = []
        self.num_lost = 0
        """Number of times that a job's workers could not recover by themselves."""
        self._slow = SlowWorkers(launcher, plan)

    @property
    def abilities(self) -> Abilities:
        """Abilities of the inner backend."""
        return self._inner.abilities

    @property
    def warmth(self) -> Warmth:
        """Warmth of the inner backend."""
        return self._inner.warmth

    @property
    def executors(self) -> int:
        """Executors of the inner backend."""
        return self._inner.executors

    @property
    def checkpoint_every(self) -> int:
        """Checkpoint period of the inner backend, in steps."""
        return self._inner.checkpoint_every

    @property
    def phases(self) -> Phases:
        """Phases of the inner backend."""
        return self._inner.phases

    @property
    def faults(self) -> list[FaultRecord]:
        """Faults injected so far; ``at_s`` is on the clock of ``time.monotonic``.

        A victim's phase marker still shows its activity when it died.
        """
        return [
            replace(fault, struck_in=self._marks.doing(fault.worker).name.lower())
            for fault in self._faults
        ]

    @property
    def is_planned(self) -> bool:
        """True if the plan has any faults."""
        return self._plan.count > 0

    @property
    def num_missed(self) -> int:
        """Number of faults whose moment did not come in time."""
        return sum(self._moments.missed.values())

    @property
    def is_over(self) -> bool:
        """True if every fault was injected and its effects have ended.

        False if the plan slows workers, because their cost shows in the remaining work. False also
        without planned faults, because then no fault is the last one.
        """
        return (
            not self._plan.slows
            and 0 < self._plan.count <= self._num_aimed
            and not self._changes
            and not self._struck & self._launcher.workers.keys()
            and time.monotonic() - self._quiet_since >= self._plan.settle_s
        )

    def problems(self, cluster: Cluster) -> list[str]:
        """Return the problems of the inner backend."""
        return self._inner.problems(cluster)

    def warnings(self, cluster: Cluster) -> list[str]:
        """Return the warnings of the inner backend."""
        return self._inner.warnings(cluster)

    def bitwise(self, cluster: Cluster) -> bool:
        """Return the answer of the inner backend."""
        return self._inner.bitwise(cluster)

    def reference(self, cluster: Cluster) -> Reference:
        """Return the reference of the inner backend."""
        return self._inner.reference(cluster)

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Open the inner backend."""
        self._inner.open(cluster, launcher)

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start the job in the inner backend, with workers that keep marks."""
        self._begin(change)
        self._inner.start(change, replace(order, marks=Path(self._folder.name)))

    def rescale(self, change: Change) -> None:
        """Rescale the job in the inner backend; a fault may become due in this change."""
        # Before the backend starts workers: those that start after this moment are the change's
        # joiners.
        self._begin(change)
        self._inner.rescale(change)
        now = time.monotonic()
        if self._is_due(now):
            moment = self._moments.next(change)
            if moment is not None:
                spread_s = self._plan.spread_s if moment == ANY else 0.0
                self._due = (now + self._drawn.uniform(0.0, spread_s), moment)

    def suspend(self, change: Change) -> None:
        """Suspend the job in the inner backend."""
        self._begin(change)
        self._inner.suspend(change)

    def resume(self, change: Change) -> None:
        """Resume the job in the inner backend."""
        self._begin(change)
        self._inner.resume(change)

    def stop(self, change: Change) -> None:
        """Stop the job in the inner backend."""
        self._begin(change)
        self._inner.stop(change)

    def set_target_step(self, job_id: str, target_step: int) -> None:
        """Set the last step of the job in the inner backend."""
        self._inner.set_target_step(job_id, target_step)

    def poll(self, timeout_s: float) -> list[Report]:
        """Return the inner backend's reports, and inject the faults that are due."""
        until = time.monotonic() + timeout_s
        while True:
            self._plan_next()
            left = until if self._due is None else min(until, self._due[0])
            # While a fault waits for its moment, the look below waits, a millisecond at a time.
            wait_s = 0.0 if self._aim is not None else max(0.0, left - time.monotonic())
            reports = self._inner.poll(wait_s)
            for report in reports:
                self._slow.note(report)
                self._note(report)
            self._slow.look()
            now = time.monotonic()
            if self._due is not None and now >= self._due[0]:
                self._take_aim(self._due[1])
            if self._aim is not None:
                self._look(self._aim)
            if reports or now >= until:
                return reports

    def close(self) -> None:
        """Let slow workers run again, then close the inner backend."""
        self._slow.end()
        self._inner.close()
        self._folder.cleanup()

    def slowings(self) -> list[SlowingRecord]:
        """Return the workers that were slowed, or removed as stragglers; times are as in
        ``faults``."""
        return self._slow.records()

    def _begin(self, change: Change) -> None:
        self._changes[change.job.job_id] = (change, time.monotonic())
        self._disturbed()

    def _note(self, report: Report) -> None:
        if report.kind in (ReportKind.PROGRESS, ReportKind.ACCEPTED):
            return
        self.num_lost += report.kind is ReportKind.LOST
        if report.kind in _ENDS_CHANGE:
            self._changes.pop(report.job_id, None)
        # Any other report ends the quiet period: a change is done, or workers were lost.
        self._quiet_since = time.monotonic()
        self._disturbed()

    def _disturbed(self) -> None:
        """Cancel a pending fault if the situation that it should strike is over.

        Call it when a change has begun or ended, or when a loss of workers was reported.
        """
        aim, due, self._aim = self._aim, self._due, None
        if due is not None and not (due[1] == ANY and self._plan.during == "change"):
            self._due = None
        if aim is not None and (self._plan.is_of_a_change(aim.moment) or aim.moment == _RECOVER):
            self._moments.missed[aim.moment] += 1  # other phases come again in later steps

    def _is_due(self, now: float) -> bool:
        is_quiet = now - self._quiet_since >= self._plan.settle_s
        return self._num_aimed < self._plan.count and is_quiet

    def _plan_next(self) -> None:
        """Draw the next moment that needs no change, while no change is in flight."""
        if (
            self._due is None
            and self._aim is None
            and not self._changes
            and self._num_aimed < self._plan.count
        ):
            moment = self._moments.next(None)
            if moment is not None:
                spread_s = self._drawn.uniform(0.0, self._plan.spread_s)
                self._due = (self._quiet_since + self._plan.settle_s + spread_s, moment)

    def _crowd(self) -> Crowd:
        alive = {h: w for h, w in self._launcher.workers.items() if h not in self._struck}
        return Crowd(alive, *next(iter(self._changes.values()), (None, 0.0)))

    def _take_aim(self, moment: str) -> None:
        self._due = None
        crowd = self._crowd()
        if moment == _RECOVER:  # recovery needs the death of another worker first
            if len(crowd.old) < 3:
                self._quiet_since = time.monotonic()
                return
            opener = self._drawn.choice(crowd.old)
            self._strike(opener, crowd, ANY)
        self._aim = Aim(moment, self._plan, self._drawn)

    def _look(self, aim: Aim) -> None:
        """Strike if the moment has come; give up a moment that has not come in time."""
        crowd = self._crowd()
        handle = aim.victim(crowd, self._marks)
        now = time.monotonic()
        if handle is None and aim.moment == ANY:  # every worker is needed: strike none
            self._aim = None
            self._quiet_since = now
        elif handle is not None and (
            aim.moment == ANY or aim.is_there(crowd.workers[handle].name, self._marks)
        ):
            self._strike(handle, crowd, aim.moment)
            self._moments.taken(aim.moment)
            self._num_aimed += 1
            self._aim = None
        elif now > aim.until:
            self._moments.missed[aim.moment] += 1
            self._aim = None
            self._quiet_since = now

    def _slow_down(self, handle: int, crowd: Crowd) -> None:
        """Slow this worker, and others with it."""
        others = sorted(one for one in crowd.workers if one != handle)
        more = self._drawn.sample(others, min(self._plan.at_once - 1, len(others)))
        chosen = {one: crowd.workers[one].name for one in (handle, *more)}
        self._slow.begin(chosen, len(crowd.workers))

    def _strike(self, handle: int, crowd: Crowd, moment: str) -> None:
        worker = crowd.workers[handle]
        self._quiet_since = now = time.monotonic()
        if self._plan.slows:
            self._slow_down(handle, crowd)
            return
        mark = self._marks.of(worker.name)
        if mark is None or moment == ANY:
            self._launcher.signal(handle, self._plan.signum)
        else:  # the launcher might pass the signal on after the phase has ended
            worker.is_signalled = True
            with suppress(ProcessLookupError):
                os.kill(mark.pid, self._plan.signum)
        self._struck.add(handle)
        is_joiner = handle in crowd.joiners
        self._faults.append(
            FaultRecord(
                at_s=now,
                signal=self._plan.signal,
                worker=worker.name,
                phase="steady" if crowd.change is None else "joiner" if is_joiner else "change",
                change_id=-1 if crowd.change is None else crowd.change.change_id,
                num_workers=len(crowd.workers),
                aimed_at=moment,
                led=int(mark is not None and mark.leads),
                was_first=int(mark is not None and mark.is_first),
            )
        )
