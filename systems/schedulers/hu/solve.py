"""Ways to solve the allocation problem, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from systems.schedulers.hu.big_m import solve_big_m
from systems.schedulers.hu.columns import solve_columns
from systems.schedulers.hu.fast import solve_fast
from systems.schedulers.hu.highs import EXACT
from systems.schedulers.hu.instance import Instance, Plan
from systems.schedulers.hu.tight import solve_tight

EXACT_BELOW = 30
"""Jobs from which on ``fast`` may leave a gap."""
MOST_SCHEDULES = 20_000
"""Schedules of one job that ``fast`` and ``columns`` write down: counts to the power of steps."""
_AIM = 0.8
"""Share of the gap asked for at which the search ends."""
_CLOSE = 1e-4
"""Gap of the search that comes before an exact answer."""


def solve_certified(instance: Instance, gap: float) -> Plan:
    """A plan within ``gap`` (a share of its proven bound), and the optimum below 30 jobs.

    The search aims a little lower, so that it seldom ends just above. Where it does all the same,
    what it leaves open is settled by a small model.
    """
    if len(instance.jobs) < EXACT_BELOW:
        return solve_by_columns(instance, EXACT)
    search = solve_fast(instance, _AIM * gap)
    return search.plan if search.plan.gap <= gap else solve_columns(instance, search, gap)


def solve_by_columns(instance: Instance, gap: float) -> Plan:
    """A plan within ``gap``, of all the schedules that the fast search cannot exclude."""
    search = solve_fast(instance, max(gap, _CLOSE))
    return search.plan if search.plan.gap <= gap else solve_columns(instance, search, gap)


METHODS: Mapping[str, Callable[[Instance, float], Plan]] = {
    "fast": solve_certified,
    "columns": solve_by_columns,
    "tight": solve_tight,
    "big_m": solve_big_m,
}
"""Each takes an instance with at least one job, and the gap at which it may stop."""
