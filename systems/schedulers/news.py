"""Which jobs a scheduler has to look at again, by the news of a view."""

from __future__ import annotations

from harness.contracts.engine import EventKind
from harness.contracts.scheduler import ClusterView

_TOUCHING = frozenset(
    {
        EventKind.ARRIVAL,
        EventKind.JOB_FINISHED,
        EventKind.JOB_FAILED,
        EventKind.JOB_CANCELLED,
        EventKind.GRANT_LOST,
        EventKind.GRANT_SHRUNK,
        EventKind.CHANGE_FAILED,
        EventKind.CHANGE_DONE,
    }
)


def touched(view: ClusterView) -> dict[str, None]:
    """Ids of the jobs that arrived, ended, or lost (all or part of), missed or reached a grant, in
    news order.

    Each id once, however much happened to it; a job that has ended is no more in
    ``view.jobs``.
    """
    return {event.job_id: None for event in view.news if event.kind in _TOUCHING}


def arrived_by(view: ClusterView, time_s: float) -> bool:
    """Whether the news tell of a job that arrived by then, such as at the boundary of a round.

    A live engine tells of an arrival a moment after it; who arrived in time for a round is
    in it all the same, as in simulation.
    """
    return any(
        event.kind is EventKind.ARRIVAL
        and event.job_id in view.jobs
        and view.jobs[event.job_id].spec.arrival_s <= time_s
        for event in view.news
    )
