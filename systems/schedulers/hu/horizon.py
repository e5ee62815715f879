"""Jobs that take part in a plan: jobs with nodes, then queued jobs, while all least sizes fit."""

from __future__ import annotations

from typing import NamedTuple

from harness.contracts.view import ClusterView
from systems.schedulers.hu.pool import JobPool


class Candidates(NamedTuple):
    """Jobs to plan for, and the nodes that they share."""

    job_ids: list[str]
    num_nodes: int
    withdrawn: list[str]
    """Jobs without nodes whose promised nodes are down now; they wait again."""


def candidates(view: ClusterView, pool: JobPool) -> Candidates:
    """Return the jobs whose least sizes fit together, eq. (15).

    Jobs with nodes come first, by arrival, then jobs to which nodes are promised, then the queue.
    The first job that does not fit ends the list.
    """
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
        # The job lost workers, and there are not enough nodes for all: it keeps what it has.
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
