"""Outliers among the runs of a cell: they are reported, and no number leaves them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.metrics.statistics import MIN_TRIALS
from reports.runs.selection import ReportRun, groups

RANGES = 1.5
"""Interquartile ranges beyond the quartiles at which outliers begin (Tukey's fences)."""


@dataclass(frozen=True)
class OutlierCell:
    """One metric of runs that differ only in seed or repetition."""

    setting: str
    system: str
    engine: str
    metric: str
    low: float
    """Lower fence: first quartile minus 1.5 interquartile ranges."""
    high: float
    """Upper fence: third quartile plus 1.5 interquartile ranges."""
    values: Mapping[str, float]
    """The metric of every run, by run id."""

    @property
    def outside(self) -> dict[str, float]:
        """Outliers among the values, by run id."""
        return {
            run: value for run, value in self.values.items() if not self.low <= value <= self.high
        }


def cells(runs: Sequence[ReportRun], metrics: Sequence[str]) -> list[OutlierCell]:
    """Return the cells of runs that have enough trials to find outliers.

    Args:
        runs: runs of one study, under the names of its page.
        metrics: metrics to examine, each separately.
    """
    found = []
    for (setting, engine, _), trials in groups(runs, "setting", "engine", "system").items():
        for metric in metrics:
            values = {run.run_id: run.metrics[metric] for run in trials if metric in run.metrics}
            if len(values) >= MIN_TRIALS:
                low, high = fences([*values.values()])
                found.append(
                    OutlierCell(setting, trials[0].label, engine, metric, low, high, values)
                )
    return found


def fences(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper fence of values; quartiles are interpolated linearly."""
    first, third = (float(each) for each in np.percentile(values, (25, 75)))
    reach = RANGES * (third - first)
    return first - reach, third + reach
