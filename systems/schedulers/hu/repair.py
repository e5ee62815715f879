"""Repair of any plan to a feasible one, and improvement step by step."""

from __future__ import annotations

from collections.abc import Sequence

from systems.schedulers.hu.knapsack import choose
from systems.schedulers.hu.tables import Tables, Whole

_MOST_SWEEPS = 8


def repaired(
    tables: Tables, choices: Whole, prices: Sequence[int], care: float
) -> tuple[Whole, int]:
    """Return a plan within the capacity, and its value in the tables' unit.

    Each step in turn is chosen again with the others fixed, which is a multiple-choice knapsack.
    This ends when a sweep over all steps improves nothing, or after ``_MOST_SWEEPS`` sweeps.

    Args:
        tables: the instance.
        choices: choices by jobs and steps; they may use too many nodes.
        prices: price of a node in each step; the price of each knapsack is searched near it.
        care: share of a plan's value that may be lost in one step to save time.
    """
    choices = choices.copy()
    value = -1
    for _ in range(_MOST_SWEEPS):
        before = value
        for step in range(tables.num_steps):
            worth = tables.step_worth(choices, step)
            present = choices[:, step].copy()
            chosen = choose(
                worth,
                tables.extra,
                tables.num_extra,
                present,
                prices[step],
                int(care * max(0, value)),
            )
            choices[:, step] = chosen
        value = int(worth[range(len(worth)), chosen].sum())
        if value <= before:
            break
    return choices, value
