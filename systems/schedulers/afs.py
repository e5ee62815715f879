"""Apathetic Future Share (AFS): each slot goes to the job that gains more, whatever arrives
later."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import merge
from typing import ClassVar, TypeAlias

from sortedcontainers import SortedDict

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import least_slots, refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.sizes import Levels, levels_of

_Order: TypeAlias = tuple[float, float, str]
"""Order of jobs that have no slots yet: length of the job, arrival, id."""


class Share:
    """Slots that a job has been given so far in one decision, and the gain from its next slots."""

    __slots__ = (
        "gain_now",
        "gain_then",
        "left_s",
        "left_samples",
        "level",
        "levels",
        "order",
        "step",
    )

    def __init__(self, order: _Order, levels: Levels, left_samples: float, level: int = 0) -> None:
        """Start the job at ``level``.

        ``levels``: useful sizes of the job, with samples per second.
        """
        self.order = order
        self.levels = levels
        self.left_samples = left_samples
        self.reach(level)

    def reach(self, level: int) -> None:
        """Give the job this size."""
        counts, rates = self.levels.counts, self.levels.rates
        self.level = level
        rate = rates[level]
        self.left_s = self.left_samples / rate if rate > 0.0 else math.inf
        """Seconds to the job's end on the slots it has; infinite on none."""
        self.step = 0
        """Slots to its next size; 0: the job is at its largest size."""
        self.gain_now = self.gain_then = 0.0
        if level + 1 < len(counts):
            self.step = counts[level + 1] - counts[level]
            gain = (rates[level + 1] - rate) / self.step
            self.gain_now = gain / rate if rate > 0.0 else math.inf
            """(p' - p) / p for each slot of the step, p being its throughput."""
            self.gain_then = gain / rates[level + 1]
            """(p' - p) / p' for each slot of the step."""


def preferred(one: Share, other: Share) -> Share:
    """Return which of two jobs gets the next slots (the comparison of Algorithm 1).

    Slots of the job that ends first would go to the other job after that end. Slots of the other
    job would stay there. The sum of both completion times is smaller if the first job gets the
    slots, exactly when ``(p1' - p1) / p1 > (p2' - p2) / p2'``, with p and p' the throughputs before
    and after. A step of several slots counts by its mean slot.
    """
    if one.level == 0 and other.level == 0:
        return one if one.order <= other.order else other
    if (one.left_s, one.order) > (other.left_s, other.order):
        one, other = other, one
    return one if one.gain_now >= other.gain_then else other


class Afs:
    """AFS: all slots are shared again at every event; each goes to the job that wins its
    comparisons.

    All jobs start with nothing. Repeatedly, the jobs that can use more slots are compared one after
    another, and the winner gets its next slots. Of two jobs without slots, the shorter wins.
    Otherwise the gain in throughput decides, for the job that ends first and for the other
    (``preferred``). So short jobs come first if they scale, and jobs that scale badly leave slots
    to the others. The rule considers two jobs and one step only, without what follows.

    Source: Hwang, Kim, Kim, Shin and Park, "Elastic Resource Sharing for Distributed Deep Learning"
    (CoDDL), NSDI 2021, section 4, AFS-L, which knows how much work is left. AFS-P, for unknown
    lengths, is left out. ``preferred`` says what the comparison means.
    Chosen here: comparisons go through the jobs that have slots in order of arrival and end with
    the shortest that has none (the comparison need not be transitive); the length of a job without
    slots is its time on its least size; a job's steps go from one useful size to the next, counted
    by their mean slot; a step that does not fit is skipped. Rescales are assumed to be free.

    A job whose least size exceeds the whole cluster is refused. A job that lost some of its workers
    is given slots like all others. The cost of a decision grows with slots times jobs with slots.

    Checked: ``compared``: the comparison with both of the outcomes that it decides between, two
    jobs with the best of all schedules, whole decisions with a plain version.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset({Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.RESCALE, Requirement.SUSPEND})
    wants_progress = False

    def __init__(self) -> None:
        self._levels: dict[str, Levels] = {}
        self._waiting: SortedDict[_Order, None] = SortedDict()
        self._place: dict[str, _Order] = {}
        """Key of each job in ``_waiting``; its length stays the same as long as the job waits."""
        self._granted: SortedDict[tuple[float, str], None] = SortedDict()

    def decide(self, view: ClusterView) -> Decision:
        """Share all slots again."""
        changes = refusals(view, self._look_again)
        shares = self._shares(view)
        grown: dict[str, Grant] = {}
        for _, job_id in list(self._granted):
            present = view.jobs[job_id].grant
            assert present is not None, "updated from the views"
            num_slots = shares.pop(job_id, 0)
            if num_slots == 0:
                changes[job_id] = Suspend()
                self._move(view, job_id, waits=True)
            elif num_slots < present.num_slots:
                changes[job_id] = Grant(num_slots)
            elif num_slots > present.num_slots:
                grown[job_id] = Grant(num_slots)
        for job_id, num_slots in shares.items():
            changes[job_id] = Grant(num_slots)
            self._move(view, job_id, waits=False)
        return Decision(changes | grown)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        job = view.jobs.get(job_id)
        if job is None:
            self._leave(job_id)
            return None
        if job_id not in self._levels:
            spec, curve = job.spec, job.throughput
            assert curve is not None, "remaining work is declared in ``needs``"
            refusal = refuse_misfit(spec, least_slots(spec), view.cluster)
            if refusal is not None:
                return refusal
            self._levels[job_id] = levels_of(spec, curve, view.cluster.num_slots, False, 1.0)
        self._move(view, job_id, waits=job.grant is None)
        return None

    def _leave(self, job_id: str) -> None:
        self._levels.pop(job_id, None)
        place = self._place.pop(job_id, None)
        if place is not None:
            self._waiting.pop(place, None)
            self._granted.pop(place[1:], None)

    def _move(self, view: ClusterView, job_id: str, *, waits: bool) -> None:
        """Put a job into the list of waiting jobs, or the list of jobs with a grant."""
        if job_id in self._place:
            self._waiting.pop(self._place[job_id], None)
        order = self._place[job_id] = self._order(view.jobs[job_id], view.time_s)
        self._granted.pop(order[1:], None)
        if waits:
            self._waiting[order] = None
        else:
            self._granted[order[1:]] = None

    def _order(self, job: JobView, now_s: float) -> _Order:
        least_rate = self._levels[job.job_id].rates[1]
        return (job.remaining_samples(now_s) / least_rate, *job.spec.order)

    def _without(self, view: ClusterView) -> Iterator[Share]:
        """Yield all jobs, each without slots, shortest first."""
        running = sorted(self._order(view.jobs[i], view.time_s) for _, i in self._granted)
        for order in merge(running, self._waiting):
            job = view.jobs[order[-1]]
            yield Share(order, self._levels[order[-1]], job.remaining_samples(view.time_s))

    def _shares(self, view: ClusterView) -> dict[str, int]:
        """Return the slots of all jobs that get slots, in the order of their first slots."""
        free = view.num_usable
        without = self._without(view)
        shortest = next(without, None)
        shares: list[Share] = []
        by_arrival: SortedDict[tuple[float, str], Share] = SortedDict()
        """Jobs with slots that can use more."""
        while free > 0:
            while shortest is not None and shortest.step > free:
                shortest = next(without, None)
            best: Share | None = None
            for share in by_arrival.values():
                if share.step <= free:
                    best = share if best is None else preferred(best, share)
            if shortest is not None:
                best = shortest if best is None else preferred(best, shortest)
            if best is None:
                break
            free -= best.step
            if best is shortest:
                shares.append(best)
                by_arrival[best.order[1:]] = best
                shortest = next(without, None)
            best.reach(best.level + 1)
            if best.step == 0:
                del by_arrival[best.order[1:]]
        return {share.order[-1]: share.levels.counts[share.level] for share in shares}
