"""Metrics of deadlines, and of jobs without a deadline in a trace that has both kinds.

Pure functions; a metric that does not apply is absent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.contracts.job_state import JobState
from harness.metrics.columns import column, finished, mean
from harness.results.records import JobRecord


def deadlines(jobs: Sequence[JobRecord]) -> dict[str, float | None]:
    """Return how many deadlines were met; a job that was refused or did not finish missed its own.

    Jobs that their owners cancelled do not count.

    ``satisfactory``: met over submitted with a deadline [ElasticFlow].

    ``feasible``: met over those that some allocation could meet alone on this cluster, arrival +
    least run time alone <= deadline. A deadline that was met counts as feasible, whatever the
    profile says. Absent if the least run time of every job is unknown. Allocations are within the
    job's bounds on slots. Under virtual workers a job has at most as many slots as logical workers,
    so fewer deadlines are feasible there. Ours.

    ``tardiness``: mean over the finished jobs with a deadline of max(0, finish - deadline).
    """
    bound = [job for job in jobs if job.deadline_s is not None and job.state != JobState.CANCELLED]
    if not bound:
        return {}
    deadline = column(bound, "deadline_s")
    done = np.array([finished(job) for job in bound])
    late = column(bound, "finish_s") - deadline
    met = done & (late <= 0)
    fastest = column(bound, "fastest_alone_s")
    feasible = met | (column(bound, "arrival_s") + fastest <= deadline)
    known = bool((~np.isnan(fastest)).any())
    return {
        "deadline_satisfactory_ratio": met.mean(),
        "deadline_feasible_ratio": met.sum() / feasible.sum() if known and feasible.any() else None,
        "tardiness_mean_s": mean(np.maximum(late[done], 0.0)),
    }


def best_effort(jobs: Sequence[JobRecord]) -> dict[str, float | None]:
    """Return the mean JCT of the jobs without a deadline, if others have one [ElasticFlow, section
    6.5].

    Absent unless all of them finished. A mean over the finished ones would favour a scheduler that
    starves the others.
    """
    own = [job for job in jobs if job.deadline_s is None]
    if not own or len(own) == len(jobs) or not all(map(finished, own)):
        return {}
    jct = column(own, "finish_s") - column(own, "arrival_s")
    return {"jct_best_effort_mean_s": mean(jct)}
