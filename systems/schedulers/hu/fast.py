"""Search for a plan within a stated share of the optimum, in tens of milliseconds and with
proof."""

from __future__ import annotations

from dataclasses import dataclass

from systems.schedulers.hu.instance import Instance, NodePlan, plan_value
from systems.schedulers.hu.prices import PriceSearch
from systems.schedulers.hu.repair import repaired
from systems.schedulers.hu.schedules import Block, blocks
from systems.schedulers.hu.tables import Tables, Whole

_HOPE = 0.999
"""Share of the bound that a plan is assumed to reach while none is known."""
_CARE = 0.02
"""Share of the requested gap that the knapsack of one step may leave."""


@dataclass(frozen=True, slots=True)
class Search:
    """Result of the fast search, from which other methods continue."""

    plan: NodePlan
    tables: Tables
    blocks: list[Block]
    prices: list[int]
    """Prices of the best bound."""
    bound: int
    """Bound that follows from the prices, in the tables' unit."""

    def open_schedules(self, most: int) -> list[list[tuple[int, ...]] | None]:
        """Return, for each job, the schedules that a better plan could give it.

        Compared with the job's best schedule at the prices, these lose at most the difference
        between bound and plan. None: there are more than ``most``.
        """
        slack = self.bound - int(self.plan.value * self.tables.unit)
        found: list[list[tuple[int, ...]] | None] = [None for _ in self.plan.choices]
        for block in self.blocks:
            schedules = block.within(self.prices, slack, most)
            for row, several in zip(block.rows.tolist(), schedules, strict=True):
                if several is not None:
                    found[row] = [tuple(one) for one in several.tolist()]
        return found


def solve_fast(
    instance: Instance, gap: float, most_steps: int = 40, first_plan: int = 12, every: int = 8
) -> Search:
    """Search until bound and plan differ by no more than ``gap`` (a share of the bound).

    Prices of the nodes are improved step by step, which lowers the bound. From time to time, the
    jobs' schedules at the best prices are turned into a plan. The search ends after ``most_steps``
    in any case; the bound of the plan shows how good it is. If no job can finish within the
    horizon, each step is a separate knapsack, and the plan is optimal.

    Args:
        instance: instance with at least one job.
        gap: share of the bound.
        most_steps: largest number of steps of the search for prices.
        first_plan: steps before the first plan is made.
        every: steps from one plan to the next.
    """
    tables = Tables.of(instance)
    parts = blocks(tables)
    search = PriceSearch(tables, parts)
    if all(part.is_separable for part in parts):
        choices, bound = repaired(tables, search.best.choices, search.best.prices, 0.0)
        return _found(instance, tables, parts, search, choices, bound)
    best: Whole | None = None
    value = -1
    for number in range(1, most_steps + 1):
        search.step(value if value >= 0 else int(search.best.bound * _HOPE))
        # Prices of 0 mean that there are enough nodes for all jobs: no search is needed.
        is_time = number >= first_plan and (number - first_plan) % every == 0
        if is_time or number == most_steps or not any(search.best.prices):
            found, worth = repaired(tables, search.best.choices, search.best.prices, _CARE * gap)
            if worth > value:
                best, value = found, worth
            if search.best.bound - value <= gap * search.best.bound:
                break
    assert best is not None
    return _found(instance, tables, parts, search, best, search.best.bound)


def _found(
    instance: Instance,
    tables: Tables,
    parts: list[Block],
    search: PriceSearch,
    rows: Whole,
    bound: int,
) -> Search:
    choices = tuple(tuple(row) for row in rows.tolist())
    value = plan_value(instance, choices)
    plan = NodePlan(choices, value, max(value, bound / tables.unit))
    return Search(plan, tables, parts, search.best.prices, search.best.bound)
