"""Allocation problem in HiGHS as the paper prints it, with big-M indicators."""

from __future__ import annotations

from systems.schedulers.common.highs import EXACT, INF, Model
from systems.schedulers.hu.instance import Instance, Job, NodePlan, plan_value
from systems.schedulers.hu.tight import add_progress


def solve_big_m(instance: Instance, gap: float = EXACT) -> NodePlan:
    """Return a plan that is optimal, or within ``gap`` of it, by the paper's own formulation.

    Source: Hu et al., section 4.4: eqs. (1), (2), (5), (6), (12), (13) and (15) to (20), with M =
    max(K) + 1. This method serves for comparison with ``solve_tight``, which has the same optimum:
    some dozens of jobs take minutes here.
    """
    model, nodes = big_m_model(instance)
    solved = model.maximise(gap)
    choices = tuple(
        tuple(job.counts.index(round(solved.values[number])) for number in held)
        for job, held in zip(instance.jobs, nodes, strict=True)
    )
    value = plan_value(instance, choices)
    return NodePlan(choices, value, max(value, solved.bound))


def big_m_model(instance: Instance) -> tuple[Model, list[list[int]]]:
    """Return the model as printed, and the number of every job's count of nodes in every step.

    The variables are in the order of jobs and steps: n, M's variable fixed at 1, delta- and delta+
    of every k, s.
    """
    model = Model()
    nodes: list[list[int]] = []
    for job in instance.jobs:
        low, high = float(job.counts[0]), float(job.counts[-1])
        # Bounds of the variable are (5), (12) and (15).
        held = [model.column(low, high, integer=True) for _ in range(instance.num_steps)]
        add_progress(model, [_indicators(model, job, number) for number in held])
        nodes.append(held)
    for step in range(instance.num_steps):
        used = [(held[step], 1.0) for held in nodes]
        model.row(-INF, used, float(instance.num_nodes))
    return model, nodes


def _indicators(model: Model, job: Job, number: int) -> list[tuple[int, float]]:
    """Bind one count of nodes to K; return the served share as a sum over variables, eqs. (19),
    (20).

    At the count that is taken, both indicators are 1; at every other count exactly one is. So the
    sum is that over k of progress(k) * (dm + dp - 1). The constant is a variable fixed at 1.
    """
    big = float(job.counts[-1] + 1)
    one = model.column(1.0, 1.0)
    every, terms = [], []
    for count, progress in zip(job.counts, job.progress, strict=True):
        for sign in (1.0, -1.0):
            # (16) for delta-, which says n <= k; (17) for delta+, which says n >= k.
            delta = model.binary()
            away = sign * count
            model.row(1.0 / big + away, [(number, sign), (delta, big + 1.0 / big)], INF)
            model.row(-INF, [(number, sign), (delta, big)], big + away)
            every.append((delta, 1.0))
            terms.append((delta, progress))
    exactly = float(len(job.counts) + 1)
    model.row(exactly, every, exactly)  # (18)
    return [*terms, (one, -sum(job.progress))]
