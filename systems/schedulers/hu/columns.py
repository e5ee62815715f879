"""Optimum of the allocation problem, from the schedules that the fast search cannot exclude."""

from __future__ import annotations

from collections.abc import Sequence

from systems.schedulers.common.highs import EXACT, INF, Model
from systems.schedulers.hu.fast import Search
from systems.schedulers.hu.instance import Instance, Job, NodePlan, job_value, plan_value
from systems.schedulers.hu.tight import add_job, taken

_MOST_COLUMNS = 40
"""Number of schedules of a job up to which each has a binary; above it, each step and count has
one."""

_Schedule = tuple[int, ...]


def solve_columns(instance: Instance, search: Search, gap: float = EXACT) -> NodePlan:
    """Return a plan that is optimal, or within ``gap`` of it, from the fast search's result.

    Let D be the difference between the search's bound and its plan. At the search's prices, a
    schedule that loses more than D against its job's best cannot be part of a better plan. A small
    model remains: one schedule of each job, and the nodes of each step.
    """
    model = Model()
    used: list[list[tuple[int, float]]] = [[] for _ in range(instance.num_steps)]
    parts: list[_Columns | _Steps] = []
    for job, open_ in zip(instance.jobs, search.open_schedules(_MOST_COLUMNS), strict=True):
        part = _Steps(model, job, used) if open_ is None else _Columns(model, job, open_, used)
        parts.append(part)
    for terms in used:
        model.row(-INF, terms, float(instance.num_nodes))
    solved = model.maximise(gap)
    choices = tuple(part.schedule(solved.values) for part in parts)
    value = plan_value(instance, choices)
    if value < search.plan.value:
        choices, value = search.plan.choices, search.plan.value
    return NodePlan(choices, value, max(value, min(solved.bound, search.plan.bound)))


class _Columns:
    """Job with a binary for each schedule."""

    def __init__(
        self,
        model: Model,
        job: Job,
        schedules: Sequence[_Schedule],
        used: Sequence[list[tuple[int, float]]],
    ) -> None:
        self._schedules = schedules
        self._binaries = [model.binary(job_value(job, schedule)) for schedule in schedules]
        model.row(1.0, [(number, 1.0) for number in self._binaries], 1.0)
        for number, schedule in zip(self._binaries, schedules, strict=True):
            for terms, choice in zip(used, schedule, strict=True):
                terms.append((number, float(job.counts[choice])))

    def schedule(self, values: Sequence[float]) -> _Schedule:
        """Return the job's schedule in the solution."""
        return self._schedules[taken([values[number] for number in self._binaries])]


class _Steps:
    """Job with a binary for each step and count."""

    def __init__(self, model: Model, job: Job, used: Sequence[list[tuple[int, float]]]) -> None:
        self._steps = add_job(model, job, len(used))
        for terms, binaries in zip(used, self._steps, strict=True):
            terms += zip(binaries, map(float, job.counts), strict=True)

    def schedule(self, values: Sequence[float]) -> _Schedule:
        """Return the job's schedule in the solution."""
        return tuple(taken([values[number] for number in binaries]) for binaries in self._steps)
