"""Methods that solve the allocation problem, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from systems.schedulers.common.highs import EXACT
from systems.schedulers.hu.big_m import solve_big_m
from systems.schedulers.hu.columns import solve_columns
from systems.schedulers.hu.fast import solve_fast
from systems.schedulers.hu.instance import Instance, NodePlan
from systems.schedulers.hu.tight import solve_tight

EXACT_BELOW = 30
"""Number of jobs from which ``fast`` may leave a gap."""
MOST_SCHEDULES = 20_000
"""Largest number of schedules of one job that ``fast`` and ``columns`` enumerate.

The number of schedules is the number of counts to the power of the steps.
"""
_AIM = 0.8
"""Share of the requested gap at which the search ends."""
_CLOSE = 1e-4
"""Gap of the search that precedes an exact answer."""


def solve_certified(instance: Instance, gap: float) -> NodePlan:
    """Return a plan within ``gap`` (a share of its proven bound); the optimum below 30 jobs.

    The search aims at a slightly smaller gap, so that it seldom ends just above ``gap``. If it
    does, a small model decides between the remaining schedules.
    """
    if len(instance.jobs) < EXACT_BELOW:
        return solve_by_columns(instance, EXACT)
    search = solve_fast(instance, _AIM * gap)
    return search.plan if search.plan.gap <= gap else solve_columns(instance, search, gap)


def solve_by_columns(instance: Instance, gap: float) -> NodePlan:
    """Return a plan within ``gap``, out of all schedules that the fast search cannot exclude."""
    search = solve_fast(instance, max(gap, _CLOSE))
    return search.plan if search.plan.gap <= gap else solve_columns(instance, search, gap)


METHODS: Mapping[str, Callable[[Instance, float], NodePlan]] = {
    "fast": solve_certified,
    "columns": solve_by_columns,
    "tight": solve_tight,
    "big_m": solve_big_m,
}
"""Solvers by name; each takes an instance with at least one job, and the gap at which it may
stop."""
