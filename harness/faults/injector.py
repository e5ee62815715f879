"""Strikes workers from outside: through the launcher, their marks, and the backend's seam.

The injector sees the processes that are started and those that have ended, the changes that
are asked for, the reports that come back, and the marks of workers that keep one; no backend
knows of it. It runs where the backend is polled, so while it waits for a mark it looks for a
millisecond at a time and lets the backend go on in between.
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
from harness.contracts.engine import Abilities, Change
from harness.contracts.launcher import Launcher, Warmth
from harness.contracts.training import (
    Backend,
    Phases,
    Reference,
    Report,
    ReportKind,
    TrainingOrder,
)
from harness.faults.aim import Aim, Crowd, Moments
from harness.faults.marks import SeenMarks
from harness.faults.plan import ANY, FaultPlan
from harness.faults.slow_workers import SlowWorkers
from harness.faults.watched import WatchedLauncher
from harness.records import FaultRecord, SlowingRecord

_ENDS_CHANGE = (
    ReportKind.DONE,
    ReportKind.FAILED,
    ReportKind.RETRY,
    ReportKind.LOST,
    ReportKind.FINISHED,
)
_RECOVER = "recover"


class FaultyBackend:
    """A backend whose workers are struck while it is polled; otherwise as the inner one."""

    def __init__(
        self, inner: Backend, launcher: WatchedLauncher, plan: FaultPlan, seed: str
    ) -> None:
        self.name = inner.name
        self._inner = inner
        self._launcher = launcher
        self._plan = plan
        self._drawn = random.Random(f"faults {seed}")
        self._moments = Moments(plan, self._drawn)
        # Of this host, like the memory behind the marks.
        self._folder = tempfile.TemporaryDirectory(prefix="marks-")
        self._marks = SeenMarks(Path(self._folder.name))
        self._changes: dict[str, tuple[Change, float]] = {}
        """The change in flight of each job, and when it was asked for."""
        self._quiet_since = time.monotonic()
        self._due: tuple[float, str] | None = None
        """When the next fault is due, and at which moment."""
        self._aim: Aim | None = None
        """The fault that is due and waits for its moment."""
        self._struck: set[int] = set()
        self._num_aimed = 0
        self._faults: list[FaultRecord] = []
        self.num_lost = 0
        """Times that a job's workers could not go on by themselves."""
        self._slow = SlowWorkers(launcher, plan)

    @property
    def abilities(self) -> Abilities:
        """Those of the inner one."""
        return self._inner.abilities

    @property
    def warmth(self) -> Warmth:
        """That of the inner one."""
        return self._inner.warmth

    @property
    def executors(self) -> int:
        """Those of the inner one."""
        return self._inner.executors

    @property
    def checkpoint_every(self) -> int:
        """That of the inner one."""
        return self._inner.checkpoint_every

    @property
    def phases(self) -> Phases:
        """Those of the inner one."""
        return self._inner.phases

    @property
    def faults(self) -> list[FaultRecord]:
        """What was done; ``at_s`` is on the clock of ``time.monotonic``.

        What the victims' marks say now is what they were doing when they died.
        """
        return [
            replace(fault, struck_in=self._marks.doing(fault.worker).name.lower())
            for fault in self._faults
        ]

    @property
    def is_planned(self) -> bool:
        """Whether there are to be faults at all."""
        return self._plan.count > 0

    @property
    def num_missed(self) -> int:
        """Faults whose moment did not come in time."""
        return sum(self._moments.missed.values())

    @property
    def is_over(self) -> bool:
        """Whether every fault was brought about, and nothing is left to see of it. What a slow
        worker costs is seen in the work that is left; and without faults there is no last one.
        """
        return (
            not self._plan.slows
            and 0 < self._plan.count <= self._num_aimed
            and not self._changes
            and not self._struck & self._launcher.workers.keys()
            and time.monotonic() - self._quiet_since >= self._plan.settle_s
        )

    def problems(self, cluster: Cluster) -> list[str]:
        """Those of the inner one."""
        return self._inner.problems(cluster)

    def cautions(self, cluster: Cluster) -> list[str]:
        """Those of the inner one."""
        return self._inner.cautions(cluster)

    def bitwise(self, cluster: Cluster) -> bool:
        """As the inner one."""
        return self._inner.bitwise(cluster)

    def reference(self, cluster: Cluster) -> Reference:
        """That of the inner one."""
        return self._inner.reference(cluster)

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """As the inner one."""
        self._inner.open(cluster, launcher)

    def start(self, change: Change, order: TrainingOrder) -> None:
        """As the inner one; the workers are to keep marks."""
        self._begin(change)
        self._inner.start(change, replace(order, marks=Path(self._folder.name)))

    def rescale(self, change: Change) -> None:
        """As the inner one; a fault may be due in this change."""
        self._begin(change)
        self._inner.rescale(change)
        now = time.monotonic()
        if self._is_due(now):
            moment = self._moments.next(change)
            if moment is not None:
                spread_s = self._plan.spread_s if moment == ANY else 0.0
                self._due = (now + self._drawn.uniform(0.0, spread_s), moment)

    def suspend(self, change: Change) -> None:
        """As the inner one."""
        self._begin(change)
        self._inner.suspend(change)

    def resume(self, change: Change) -> None:
        """As the inner one."""
        self._begin(change)
        self._inner.resume(change)

    def stop(self, change: Change) -> None:
        """As the inner one."""
        self._begin(change)
        self._inner.stop(change)

    def hold(self, job_id: str, target_step: int) -> None:
        """As the inner one."""
        self._inner.hold(job_id, target_step)

    def poll(self, timeout_s: float) -> list[Report]:
        """As the inner one, but no longer than until a fault is due, and then it strikes."""
        until = time.monotonic() + timeout_s
        while True:
            self._plan_next()
            left = until if self._due is None else min(until, self._due[0])
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
        """As the inner one; who is slow may run again first."""
        self._slow.end()
        self._inner.close()
        self._folder.cleanup()

    def slowings(self) -> list[SlowingRecord]:
        """Workers that were slowed, or removed as stragglers; times as those of ``faults``."""
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
        # Whatever else is told ends the quiet: a change is done, workers were lost.
        self._quiet_since = time.monotonic()
        self._disturbed()

    def _disturbed(self) -> None:
        """A change begins or ends, or a loss was told: what was to be struck has passed."""
        aim, due, self._aim = self._aim, self._due, None
        if due is not None and not (due[1] == ANY and self._plan.during == "change"):
            self._due = None
        if aim is not None and (self._plan.is_of_a_change(aim.moment) or aim.moment == _RECOVER):
            self._moments.missed[aim.moment] += 1  # others come again as they were

    def _is_due(self, now: float) -> bool:
        is_quiet = now - self._quiet_since >= self._plan.settle_s
        return self._num_aimed < self._plan.count and is_quiet

    def _plan_next(self) -> None:
        """While nothing is going on: draw the next moment that needs no change."""
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
        if moment == _RECOVER:  # somebody has to die for it
            if len(crowd.old) < 3:
                self._quiet_since = time.monotonic()
                return
            opener = self._drawn.choice(crowd.old)
            self._strike(opener, crowd, ANY)
        self._aim = Aim(moment, self._plan, self._drawn)

    def _look(self, aim: Aim) -> None:
        """Strike if the moment is there; give it up if it has been waited for too long."""
        crowd = self._crowd()
        handle = aim.victim(crowd, self._marks)
        now = time.monotonic()
        if handle is None and aim.moment == ANY:  # nobody who could be spared
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
        else:  # a phase may be over before the launcher has passed it on
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
