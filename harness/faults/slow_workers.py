"""Workers that are slowed on purpose, and their detection by the backend.

The backend's reports are the only source: SHRUNK names the workers that were removed as stragglers,
and says how long ago they were detected.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from harness.contracts.backend_reports import Report, ReportKind
from harness.faults.plan import FaultPlan
from harness.faults.slowing import Slowing
from harness.results.records import SlowingRecord


class Workers(Protocol):
    """Methods of a launcher that this module uses."""

    @property
    def workers(self) -> Mapping[int, object]:
        """Workers that live, by handle."""
        ...

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a worker; safe to call from any thread."""
        ...


@dataclass
class _SlowWorker:
    name: str
    handle: int
    num_workers: int
    slowing: Slowing
    detected_at: float | None = None
    switched_at: float | None = None


class SlowWorkers:
    """Slowed workers of a run, and their detection. Times are on ``time.monotonic``."""

    def __init__(self, launcher: Workers, plan: FaultPlan) -> None:
        """Prepare to slow workers of ``launcher`` with the speed and duration in ``plan``."""
        self._launcher = launcher
        self._plan = plan
        self._known: list[_SlowWorker] = []
        self._mistaken: list[SlowingRecord] = []

    def begin(self, chosen: Mapping[int, str], num_workers: int) -> None:
        """Slow the chosen workers, given by handle with their names.

        ``num_workers`` is the number of workers that live.
        """
        plan = self._plan
        for handle, name in chosen.items():
            send: Callable[[signal.Signals], None] = partial(self._launcher.signal, handle)
            slowing = Slowing(send, plan.speed, plan.period_s, plan.lasting_s)
            self._known.append(_SlowWorker(name, handle, num_workers, slowing))

    def note(self, report: Report) -> None:
        """Record the detection of stragglers, if a report says that workers were removed as
        stragglers."""
        if report.kind is not ReportKind.SHRUNK or not report.stragglers:
            return
        detected_at = report.at_s - report.phases_s["remove"]
        switched_at = detected_at + report.phases_s["remove_switch"]
        # A slowing that began after the detection cannot be the reason for it.
        slow = {one.name: one for one in self._known if one.slowing.started_at <= detected_at}
        for name in report.stragglers:
            if name in slow:
                slow[name].detected_at, slow[name].switched_at = detected_at, switched_at
            else:
                num_workers = len(report.slots) + len(report.lost_slots)
                self._mistaken.append(
                    SlowingRecord(
                        at_s=detected_at,
                        until_s=report.at_s,
                        worker=name,
                        speed=1.0,
                        stopped_share=0.0,
                        num_workers=num_workers,
                        detected_s=0.0,
                        switched_s=switched_at - detected_at,
                    )
                )

    def look(self) -> None:
        """End the slowing of workers that have ended."""
        for one in self._known:
            if not one.slowing.is_over and one.handle not in self._launcher.workers:
                one.slowing.end()

    def end(self) -> None:
        """Let every worker run again."""
        for one in self._known:
            one.slowing.end()

    def records(self) -> list[SlowingRecord]:
        """Return the slowings and detections so far, in the order of time."""
        found = [self._record(one) for one in self._known]
        return sorted([*found, *self._mistaken], key=lambda record: record.at_s)

    def _record(self, one: _SlowWorker) -> SlowingRecord:
        at, slowing = one.slowing.started_at, one.slowing
        return SlowingRecord(
            at_s=at,
            until_s=at + slowing.lasted_s,
            worker=one.name,
            speed=self._plan.speed,
            stopped_share=slowing.stopped_share,
            num_workers=one.num_workers,
            detected_s=None if one.detected_at is None else one.detected_at - at,
            switched_s=None if one.switched_at is None else one.switched_at - at,
        )
