"""Allocation problem in HiGHS with one binary for each job, step and node count."""

from __future__ import annotations

from collections.abc import Sequence

from systems.schedulers.common.highs import EXACT, INF, Model
from systems.schedulers.hu.instance import Instance, Job, NodePlan, plan_value


def solve_tight(instance: Instance, gap: float = EXACT) -> NodePlan:
    """Return a plan that is optimal, or within ``gap`` of it (a share of the bound).

    The model has the optimum of Hu et al.'s eqs. (1), (2), (5), (6), (12), (13) and (15) to (20).
    The paper expresses with two big-M families that n is one of K. Here exactly one binary of each
    job and step is 1, which makes the relaxation far tighter.
    """
    model = Model()
    chosen = [add_job(model, job, instance.num_steps) for job in instance.jobs]
    for step in range(instance.num_steps):
        used = [
            (binary, float(count))
            for job, steps in zip(instance.jobs, chosen, strict=True)
            for binary, count in zip(steps[step], job.counts, strict=True)
        ]
        model.row(-INF, used, float(instance.num_nodes))
    solved = model.maximise(gap)
    choices = tuple(
        tuple(taken([solved.values[binary] for binary in binaries]) for binaries in steps)
        for steps in chosen
    )
    value = plan_value(instance, choices)
    return NodePlan(choices, value, max(value, solved.bound))


def add_job(model: Model, job: Job, num_steps: int) -> list[list[int]]:
    """Add one job: a binary for each step and count, exactly one of which is 1 in a step.

    Also add the job's progress. Return the binaries by steps and counts.
    """
    steps = [[model.binary() for _ in job.counts] for _ in range(num_steps)]
    for binaries in steps:
        model.row(1.0, [(binary, 1.0) for binary in binaries], 1.0)
    add_progress(model, [list(zip(binaries, job.progress, strict=True)) for binaries in steps])
    return steps


def add_progress(model: Model, served: Sequence[Sequence[tuple[int, float]]]) -> None:
    """Add the share of one job that is done after each step.

    This is objective (1), eqs. (2) and (13), and (3) and (4) with what a step serves as a sum over
    variables.
    """
    before: list[tuple[int, float]] = []
    for terms in served:
        done = model.column(0.0, 1.0, cost=1.0)
        negated = [(index, -factor) for index, factor in (*before, *terms)]
        model.row(-INF, [(done, 1.0), *negated], 0.0)
        before = [(done, 1.0)]


def taken(values: Sequence[float]) -> int:
    """Return the position of the binary that is 1."""
    return max(range(len(values)), key=values.__getitem__)
