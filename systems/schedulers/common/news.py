"""Jobs that a scheduler has to check again, by the news of a view."""

from __future__ import annotations

from collections.abc import Callable

from harness.contracts.decision import Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.view import ClusterView

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
    """Return the ids of the jobs that the news concern, each once, in news order.

    These jobs arrived, ended, lost all or some of their slots, failed a change or reached a grant.
    A job that has ended is no longer in ``view.jobs``.
    """
    return {event.job_id: None for event in view.news if event.kind in _TOUCHING}


def refusals(
    view: ClusterView, look_again: Callable[[ClusterView, str], Refuse | None]
) -> dict[str, Grant | Suspend | Refuse]:
    """Look again at each job that the news concern, and return those that are refused.

    Args:
        view: view with the news.
        look_again: updates what a scheduler keeps of a job; returns why the job is refused, or
            None.
    """
    found: dict[str, Grant | Suspend | Refuse] = {}
    for job_id in touched(view):
        refusal = look_again(view, job_id)
        if refusal is not None:
            found[job_id] = refusal
    return found


def arrived_by(view: ClusterView, time_s: float) -> bool:
    """Return whether the news contain a job that arrived by ``time_s``, such as a round's boundary.

    A live engine reports an arrival with a small delay. A job that arrived in time for a round
    still belongs to that round, as in simulation.
    """
    return any(
        event.kind is EventKind.ARRIVAL
        and event.job_id in view.jobs
        and view.jobs[event.job_id].spec.arrival_s <= time_s
        for event in view.news
    )
