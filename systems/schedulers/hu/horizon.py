"""Who takes part in a plan: jobs with nodes, then the queue, as far as everybody's least fits."""

from __future__ import annotations

from typing import NamedTuple

from harness.contracts.scheduler import ClusterView
from systems.schedulers.hu.pool import JobPool


class Candidates(NamedTuple):
    """Jobs to plan for, and the nodes that they share."""

    job_ids: list[str]
    num_nodes: int
    withdrawn: list[str]
    """Jobs that were promised nodes which are down now and hold none: they wait again."""


def candidates(view: ClusterView, pool: JobPool) -> Candidates:
    """Jobs whose least sizes fit together, eq. (15): those with nodes by arrival, then those to
    which nodes are promised, then the queue; the first that does not fit ends it."""
    holding: list[str] = []
    promised: list[str] = []
    for job_id in pool.training():
        job = view.jobs[job_id]
        (holding if job.slots or job_id in view.in_flight else promised).append(job_id)
    num_nodes = view.num_usable
    least = sum(pool.counts(job_id)[0] for job_id in holding)
    for job_id in reversed(holding):
        if least <= num_nodes:
            break
        # It lost workers, and there are not enough nodes for all: it goes on as it is.
        grant = view.jobs[job_id].grant
        if grant is not None and grant.num_slots < pool.counts(job_id)[0]:
            holding.remove(job_id)
            least -= pool.counts(job_id)[0]
            num_nodes -= grant.num_slots
    if least > num_nodes:
        return Candidates([], 0, [])
    part = holding
    withdrawn: list[str] = []
    for job_id in (*promised, *pool.queue()):
        least += pool.counts(job_id)[0]
        if least > num_nodes:
            withdrawn = [other for other in promised if other not in part]
            break
        part.append(job_id)
    return Candidates(part, num_nodes, withdrawn)
