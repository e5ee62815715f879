"""Runs that lie far from the others of their cell: named, and kept in every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.statistics import MIN_TRIALS
from reports.selection import ReportRun, groups

RANGES = 1.5
"""Interquartile ranges beyond the quartiles from which a run is an outlier (Tukey's fences)."""


@dataclass(frozen=True)
class Cell:
    """Runs that differ in seed or repetition alone, and one of their metrics."""

    setting: str
    system: str
    engine: str
    metric: str
    low: float
    """Lower fence: first quartile less 1.5 interquartile ranges."""
    high: float
    """Upper fence: third quartile plus 1.5 interquartile ranges."""
    values: Mapping[str, float]
    """The metric of every run, by its id."""

    @property
    def outside(self) -> dict[str, float]:
        """The outliers among them."""
        return {
            run: value for run, value in self.values.items() if not self.low <= value <= self.high
        }


def cells(runs: Sequence[ReportRun], metrics: Sequence[str]) -> list[Cell]:
    """The cells of runs that have enough trials to tell outliers.

    Args:
        runs: of one study, under the names of its page.
        metrics: looked at, each on its own.
    """
    found = []
    for (setting, engine, _), trials in groups(runs, "setting", "engine", "system").items():
        for metric in metrics:
            values = {run.run_id: run.metrics[metric] for run in trials if metric in run.metrics}
            if len(values) >= MIN_TRIALS:
                low, high = fences([*values.values()])
                found.append(Cell(setting, trials[0].label, engine, metric, low, high, values))
    return found


def fences(values: Sequence[float]) -> tuple[float, float]:
    """Between what values lie that are no outliers; quartiles by linear interpolation."""
    first, third = (float(each) for each in np.percentile(values, (25, 75)))
    reach = RANGES * (third - first)
    return first - reach, third + reach
