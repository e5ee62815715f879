"""Workers that are slowed on purpose, and what a backend finds out about it.

All that is known of the backend comes through its reports: a grant that has shrunk names the
workers that were removed as stragglers, and how long ago they were found.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from harness.contracts.training import Report, ReportKind
from harness.faults.plan import FaultPlan
from harness.faults.slowing import Slowing
from harness.records import SlowingRecord


class Workers(Protocol):
    """What is asked of a launcher here."""

    @property
    def workers(self) -> Mapping[int, object]:
        """Workers that live, by handle."""
        ...

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal one; from any thread."""
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
    """See the module's text. Times are those of ``time.monotonic``."""

    def __init__(self, launcher: Workers, plan: FaultPlan) -> None:
        """Args: where the workers are, and how slow they are to be for how long."""
        self._launcher = launcher
        self._plan = plan
        self._known: list[_SlowWorker] = []
        self._mistaken: list[SlowingRecord] = []
        self.num_begun = 0
        """Times that workers were slowed, one or several at once."""

    @property
    def are_any(self) -> bool:
        """Whether somebody is slow now."""
        return any(not one.slowing.is_over for one in self._known)

    def begin(self, chosen: Mapping[int, str], num_workers: int) -> None:
        """Slow workers, given by handle with their names; so many workers live."""
        self.num_begun += 1
        plan = self._plan
        for handle, name in chosen.items():
            send: Callable[[signal.Signals], None] = partial(self._launcher.signal, handle)
            slowing = Slowing(send, plan.speed, plan.period_s, plan.lasting_s)
            self._known.append(_SlowWorker(name, handle, num_workers, slowing))

    def note(self, report: Report) -> None:
        """Somebody may have been removed as a straggler."""
        if report.kind is not ReportKind.SHRUNK or not report.stragglers:
            return
        detected_at = report.at_s - report.phases_s["remove"]
        switched_at = detected_at + report.phases_s["remove_switch"]
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
        """Who has ended is slow no more."""
        for one in self._known:
            if not one.slowing.is_over and one.handle not in self._launcher.workers:
                one.slowing.end()

    def end(self) -> None:
        """Everybody runs again."""
        for one in self._known:
            one.slowing.end()

    def records(self) -> list[SlowingRecord]:
        """What was done and found so far, in the order of time."""
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
