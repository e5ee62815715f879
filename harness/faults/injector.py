"""Strikes workers from outside: through the launcher, and by what passes the backend's seam.

The injector sees the processes that are started and those that have ended, the changes that
are asked for and the reports that come back, and nothing else: no backend knows of it.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster import Cluster
from harness.contracts.engine import Abilities, Change
from harness.contracts.launcher import Exit, Launcher, ProcessSpec, Spares, SpareSpec, Warmth
from harness.contracts.training import Backend, Report, ReportKind, TrainingOrder
from harness.faults.plan import FaultPlan
from harness.faults.slow_workers import SlowWorkers
from harness.records import FaultRecord, SlowingRecord

_ENDS_CHANGE = (
    ReportKind.DONE,
    ReportKind.FAILED,
    ReportKind.RETRY,
    ReportKind.LOST,
    ReportKind.FINISHED,
)
_NO_WORKER = ".store"
"""Part of the names of processes that serve a job and do not train."""


@dataclass
class _Worker:
    name: str
    started: float


class WatchedLauncher:
    """A launcher that remembers which workers live, and may be used by several threads."""

    def __init__(self, inner: Launcher) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.workers: dict[int, _Worker] = {}

    def open(self, preimport: Sequence[str] = ()) -> None:
        """As the inner one."""
        self._inner.open(preimport)

    def start(self, spec: ProcessSpec) -> int:
        """As the inner one; a process that trains is remembered."""
        with self._lock:
            handle = self._inner.start(spec)
        if _NO_WORKER not in spec.name:
            self.workers[handle] = _Worker(spec.name, time.monotonic())
        return handle

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """As the inner one."""
        with self._lock:
            self._inner.signal(handle, signum)

    def ended(self) -> list[Exit]:
        """As the inner one."""
        with self._lock:
            found = self._inner.ended()
        for one in found:
            self.workers.pop(one.handle, None)
        return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """As the inner one."""
        self._inner.keep(spares)

    def spares(self) -> Spares:
        """As the inner one."""
        return self._inner.spares()

    def spares_bytes(self, num_slots: int) -> int:
        """As the inner one."""
        return self._inner.spares_bytes(num_slots)

    def close(self) -> None:
        """As the inner one."""
        self._inner.close()


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
        self._changes: dict[str, tuple[Change, float]] = {}
        """The change in flight of each job, and when it was asked for."""
        self._quiet_since = time.monotonic()
        self._due: float | None = None
        self._struck: set[int] = set()
        self.faults: list[FaultRecord] = []
        """What was done; ``at_s`` is on the clock of ``time.monotonic``."""
        self._slow = SlowWorkers(launcher, plan)

    @property
    def abilities(self) -> Abilities:
        """Those of the inner one."""
        return self._inner.abilities

    @property
    def warmth(self) -> Warmth:
        """That of the inner one."""
        return self._inner.warmth

    def problems(self) -> list[str]:
        """Those of the inner one."""
        return self._inner.problems()

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """As the inner one."""
        self._inner.open(cluster, launcher)

    def start(self, change: Change, order: TrainingOrder) -> None:
        """As the inner one."""
        self._begin(change)
        self._inner.start(change, order)

    def rescale(self, change: Change) -> None:
        """As the inner one; in ``change`` mode a fault is drawn for it."""
        self._begin(change)
        self._inner.rescale(change)
        quiet_s = time.monotonic() - self._quiet_since
        if self._plan.during == "change" and quiet_s >= self._plan.settle_s:
            self._draw(time.monotonic())

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
        now = time.monotonic()
        until = now + timeout_s
        while True:
            self._plan_next()
            left = until if self._due is None else min(until, self._due)
            reports = self._inner.poll(max(0.0, left - time.monotonic()))
            for report in reports:
                self._slow.note(report)
                self._note(report)
            self._slow.look()
            now = time.monotonic()
            if self._due is not None and now >= self._due:
                self._due = None
                self._strike(now)
            if reports or now >= until:
                return reports

    def close(self) -> None:
        """As the inner one; who is slow may run again first."""
        self._slow.end()
        self._inner.close()

    def slowings(self) -> list[SlowingRecord]:
        """Workers that were slowed, or removed as stragglers; times as those of ``faults``."""
        return self._slow.records()

    def _begin(self, change: Change) -> None:
        self._changes[change.job.job_id] = (change, time.monotonic())
        if self._plan.during == "steady":
            self._due = None

    def _note(self, report: Report) -> None:
        if report.kind is ReportKind.PROGRESS or report.kind is ReportKind.ACCEPTED:
            return
        if report.kind in _ENDS_CHANGE:
            self._changes.pop(report.job_id, None)
        # Whatever else is told ends the quiet: a change is done, workers were lost.
        self._quiet_since = time.monotonic()
        if self._plan.during == "steady":
            self._due = None

    def _plan_next(self) -> None:
        """In ``steady`` mode: draw the next moment once nothing is going on."""
        is_quiet = not self._changes and not self._slow.are_any
        if self._plan.during == "steady" and self._due is None and is_quiet:
            self._draw(self._quiet_since + self._plan.settle_s)

    def _draw(self, from_time: float) -> None:
        if len(self.faults) + self._slow.num_begun < self._plan.count:
            self._due = from_time + self._drawn.uniform(0.0, self._plan.spread_s)

    def _strike(self, now: float) -> None:
        """Signal one worker, unless it would be the last of those that can go on."""
        alive = {h: w for h, w in self._launcher.workers.items() if h not in self._struck}
        change, asked = next(iter(self._changes.values()), (None, now))
        joiners = {handle for handle, worker in alive.items() if worker.started >= asked}
        established = alive.keys() - joiners
        candidates = sorted(alive if len(established) > 1 else joiners)
        if not candidates or len(alive) < 2:
            self._quiet_since = now
            return
        handle = {
            "any": self._drawn.choice(candidates),
            "oldest": candidates[0],
            "newest": candidates[-1],
        }[self._plan.victim]
        self._quiet_since = now
        if self._plan.slows:
            chosen = [handle]
            others = [one for one in candidates if one != handle]
            chosen += self._drawn.sample(others, min(self._plan.at_once - 1, len(others)))
            self._slow.begin({one: alive[one].name for one in chosen}, len(alive))
            return
        self._launcher.signal(handle, self._plan.signum)
        self._struck.add(handle)
        self.faults.append(
            FaultRecord(
                at_s=now,
                signal=self._plan.signal,
                worker=alive[handle].name,
                phase="steady" if change is None else "joiner" if handle in joiners else "change",
                change_id=-1 if change is None else change.change_id,
                num_workers=len(alive),
            )
        )
