"""Decision times of a scheduler that does not decide at every event."""

from __future__ import annotations

import math
from typing import Literal

from harness.contracts.view import ClusterView
from systems.schedulers.common.news import arrived_by

Trigger = Literal["event", "period", "hybrid"]


class DecisionTimes:
    """Decision times: at every event, at a period, or earlier once many jobs have ended.

    ``event``: whenever something has happened. ``period``: at multiples of ``period_s`` on the
    engine's clock. ``hybrid``: as ``period``, but at once when at least ``ended_share`` of the jobs
    that ran after the last decision have ended; the period then counts from there.

    Source: Saxena et al., MASCOTS 2020, sections III-D and V-B (10 to 15 minutes; 5% of the jobs).
    Restarting the period after an early decision is a choice made here: the text says "wait 10
    minutes or until".
    """

    def __init__(self, trigger: Trigger, period_s: float, ended_share: float) -> None:
        self._trigger = trigger
        self._period_s = period_s
        self._ended_share = ended_share
        self._from_s = 0.0
        self._due_s: float | None = None
        """Time of the next decision; None: nothing is pending."""

    def due_s(self, view: ClusterView, num_ended: int, num_running: int) -> float:
        """Return the time of the decision about pending news: the view's time, or a later time.

        Args:
            view: view of the decision that asks.
            num_ended: number of jobs that have ended since the last decision.
            num_running: number of jobs that ran after the last decision.
        """
        now_s = view.time_s
        if self._trigger == "event":
            return now_s
        if self._due_s is None:
            periods = math.ceil((now_s - self._from_s) / self._period_s)
            self._due_s = self._from_s + periods * self._period_s
            if self._due_s < now_s:  # correct a product that was rounded down
                self._due_s += self._period_s
            if arrived_by(view, self._due_s - self._period_s):
                self._due_s = now_s
        if now_s < self._due_s:
            enough = num_ended > 0 and num_ended >= self._ended_share * num_running
            if self._trigger != "hybrid" or not enough:
                return self._due_s
            self._from_s = now_s
        self._due_s = None
        return now_s
