"""Tiresias: discretised two-dimensional least attained service, or Gittins index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.attained_service.gittins import ServiceHistory
from systems.schedulers.attained_service.service_groups import ServiceGroups


class Tiresias:
    """Tiresias: jobs with the fewest slot-seconds so far run first, at the slots they requested.

    A job is in group ``i`` while its attained service is below ``queue_limits_slot_s[i]``, and in
    the last group beyond. Every arrival, end and group change makes a new plan. It takes groups in
    order, and inside a group jobs in order of entry into it. Each job gets its requested slots if
    they fit and is skipped otherwise. Running jobs outside the plan are suspended.

    ``queue_limits_slot_s``: slot-seconds after which a job leaves each group except the last (EDL
    paper: 500 and 10,000 GPU-seconds; the NSDI paper uses two groups and 3,200).
    ``promote_after``: a waiting job outside the first group returns there once it has waited this
    many times as long as it has executed (EDL paper: no number). Its service then counts from zero;
    its executed time does not, or the job would thrash. None: never.
    ``order``: inside a group, ``fifo`` is by entry into the group; ``gittins`` by falling Gittins
    index over the service up to the group's limit, learned from the jobs that have ended
    (``ServiceHistory``), then by arrival.

    Source: Gu et al., NSDI '19, as the EDL paper describes it (section 5.1). Open in the text and
    chosen here: limits on cumulative service; FIFO by time of entry into the group, then by
    arrival; the multiple of the executed time (the text says only that a job not scheduled for long
    returns); a job's group does not change during its suspension; the source of the Gittins indices
    and the times at which they are computed (``ServiceGroups``). A job that the whole cluster
    cannot hold is refused. A job that lost some of its workers continues with the others until it
    is next suspended; then it waits for its whole gang again.

    The plan is not rebuilt but repaired (``GangPlan``).

    Checked: ``compared``, with a plan that is built from nothing at every event
    (``tests/schedulers/naive_tiresias.py``).

    Raises:
        ValueError: limits that do not ascend from above 0, or a negative ``promote_after``.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset()
    requires: frozenset[Requirement] = frozenset({Requirement.SUSPEND})
    wants_progress = False

    def __init__(
        self,
        queue_limits_slot_s: Sequence[float] = (500.0, 10_000.0),
        promote_after: float | None = None,
        order: Literal["fifo", "gittins"] = "fifo",
    ) -> None:
        if order not in ("fifo", "gittins"):
            raise ValueError(f"order is {order!r}; give fifo or gittins")
        history = ServiceHistory() if order == "gittins" else None
        self._groups = ServiceGroups(queue_limits_slot_s, promote_after, history)

    def decide(self, view: ClusterView) -> Decision:
        """Make the group changes that are due, then repair the plan."""
        changes = self._groups.follow(view)
        self._groups.regroup(view)
        started, evicted = self._groups.plan.repair(view.num_free)
        for key in evicted:
            self._groups.stopped(view, key.job_id)
            changes[key.job_id] = Suspend()
        for key in started:
            self._groups.started(view, key.job_id)
            changes[key.job_id] = Grant(key.num_slots)
        return Decision(changes, self._groups.next_wake(view.time_s))
