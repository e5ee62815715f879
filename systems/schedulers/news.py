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
