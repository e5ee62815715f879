"""The optimum, from what the fast search leaves open: one binary for each schedule of a job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systems.schedulers.hu.fast import Search
from systems.schedulers.hu.highs import EXACT, INF, Model
from systems.schedulers.hu.instance import Instance, Plan, job_value, plan_value


def solve_columns(instance: Instance, search: Search, gap: float = EXACT) -> Plan:
    """A plan that is optimal, or within ``gap`` of it, from the fast search's plan and bound.

    At the search's prices a schedule of a job that costs more, against that job's best, than
    bound and plan differ by is in no better plan. What is left is a small model: one schedule of
    each job, and the nodes of each step.
    """
    open_ = search.open_schedules()
    model = Model()
    used: list[list[tuple[int, float]]] = [[] for _ in range(instance.num_steps)]
    chosen: list[list[tuple[int, tuple[int, ...]]]] = []
    for job, schedules in zip(instance.jobs, open_, strict=True):
        binaries = []
        for schedule in schedules:
            number = model.binary(job_value(job, schedule))
            binaries.append((number, schedule))
            for step, choice in enumerate(schedule):
                used[step].append((number, float(job.counts[choice])))
        model.row(1.0, [(number, 1.0) for number, _ in binaries], 1.0)
        chosen.append(binaries)
    for terms in used:
        model.row(-INF, terms, float(instance.num_nodes))
    solved = model.maximise(gap)
    choices = tuple(
        max(binaries, key=lambda binary: solved.values[binary[0]])[1] for binaries in chosen
    )
    value = plan_value(instance, choices)
    if value < search.plan.value:
        choices, value = search.plan.choices, search.plan.value
    return Plan(choices, value, max(value, solved.bound))
