"""Cost of a replay and its decisions, as the number of jobs or of slots grows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels, options

TITLE = "Cost over jobs and over slots"
_WALL, _SPEED = "replay_wall_s", "replay_events_per_s"
_PANELS = {
    _WALL: "replay (s)",
    "decision_latency_p50_ms": "decision, p50 (ms)",
    "decision_latency_p99_ms": "decision, p99 (ms)",
}
"""Metric and label of each row of axes."""
_SIZES = ("jobs", "slots")

_Values = Mapping[tuple[int, int], Mapping[int, float]]
"""A system's metric by trial, then by size."""


@dataclass(frozen=True)
class Sweep:
    """Simulated runs in which one size grows and the other stays."""

    grows: str
    """``jobs`` or ``slots``."""
    beside: str
    """The size that stays, with its unit."""
    runs: tuple[ReportRun, ...]

    @property
    def sizes(self) -> list[int]:
        """Sizes of the runs, ascending."""
        return sorted({size_of(run, self.grows) for run in self.runs})

    def values(self, system: str, metric: str) -> _Values:
        """Return a metric of one system without zeros, because a logarithmic axis cannot show
        them."""
        found: dict[tuple[int, int], dict[int, float]] = {}
        for run in self.runs:
            if run.system == system and run.metrics.get(metric, 0.0) > 0:
                found.setdefault(run.trial, {})[size_of(run, self.grows)] = run.metrics[metric]
        return found


def size_of(run: ReportRun, which: str) -> int:
    """Return the number of submitted jobs, or of slots of the cluster."""
    return int(run.metrics["jobs_submitted"]) if which == "jobs" else run.num_slots


def sweeps(runs: Sequence[ReportRun]) -> list[Sweep]:
    """Return for each size the runs in which only this size varies, with the most values."""
    found = []
    for grows, stays in (_SIZES, _SIZES[::-1]):
        alike: dict[tuple[str, int], list[ReportRun]] = {}
        for run in runs:
            if not run.is_live and run.metrics.get(_WALL, 0.0) > 0:
                key = options(run.stored).get("trace", "?"), size_of(run, stays)
                alike.setdefault(key, []).append(run)
        own = {key: Sweep(grows, f"{key[1]:,} {stays}", tuple(alike[key])) for key in sorted(alike)}
        largest = max(own.values(), key=lambda sweep: len(sweep.sizes), default=None)
        if largest is not None and len(largest.sizes) > 1:
            found.append(largest)
    return found


def exponent(values: Mapping[int, float]) -> float | None:
    """Return the exponent with which a cost grows with the size, by a line through the
    logarithms."""
    if len(values) < 2:
        return None
    logs = np.log(np.array(sorted(values.items())))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: wall clock and decisions over jobs (left) and over slots (right)."""
    found = sweeps(runs)
    if not found:
        reason = (
            "No simulated runs of the selection differ in the number of jobs alone or of "
            "slots alone."
        )
        return [Drawing("growth", TITLE, missing=reason)]
    shown = list({run.run_id: run for sweep in found for run in sweep.runs}.values())
    looks = style.Looks(run.system for run in shown)
    figure = style.new_figure(0.7 + 1.9 * len(_PANELS))
    axes = figure.subplots(len(_PANELS), len(found), squeeze=False, sharey="row", sharex="col")
    for column, sweep in enumerate(found):
        for axis, metric in zip(axes[:, column], _PANELS, strict=True):
            _lines(axis, sweep, metric, looks)
        axes[0, column].set_title(f"Over {sweep.grows}, {sweep.beside}")
        axes[-1, column].set_xlabel(f"{sweep.grows} (count, logarithmic)")
    for row, label in zip(axes, _PANELS.values(), strict=True):
        row[0].set_ylabel(f"{label}, log.")
        style.plain_log_ticks(row[0].yaxis)
    style.put_note(figure, shown)
    style.put_legend(figure)
    return [
        Drawing(
            name="growth",
            title=TITLE,
            caption="Medians of the trials; bars from the lowest to the highest. Decisions are "
            "timed to the microsecond. The exponent is the slope of a line through the "
            "logarithms, fitted to each trial; the table gives its mean and range over "
            "trials. An exponent of 1 means that the cost is proportional to the size. "
            "The last step is from the second largest size to the largest.",
            run_ids=[run.run_id for run in shown],
            figure=figure,
            table=Table(_HEADER, [row for sweep in found for row in _rows(sweep)]),
        )
    ]


def _lines(axis: Axes, sweep: Sweep, metric: str, looks: style.Looks) -> None:
    """Draw a line for each system, and the range of its trials."""
    names = labels(sweep.runs)
    for (system,) in groups(sweep.runs, "system"):
        points = _by_size(sweep.values(system, metric))
        if points:
            middles = [median(trials) for trials in points.values()]
            ranges = [
                [middle - min(t) for middle, t in zip(middles, points.values(), strict=True)],
                [max(t) - middle for middle, t in zip(middles, points.values(), strict=True)],
            ]
            axis.errorbar(
                list(points), middles, yerr=ranges, marker="o", markersize=3.5, capsize=2,
                linewidth=1.3, label=names[system], **looks.line(system),
            )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(sweep.sizes, [f"{size:,}" for size in sweep.sizes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())


_HEADER = (
    "system, what grows", "sizes", "trials", "replay s", "events/s",
    "exponent of replay", "its last step", "of p50", "of p99",
)  # fmt: skip


def _rows(sweep: Sweep) -> list[list[str]]:
    """Return each system's costs at the least and the largest size, and their growth."""
    rows, names = [], labels(sweep.runs)
    for (system,) in groups(sweep.runs, "system"):
        walls = sweep.values(system, _WALL)
        sizes = list(_by_size(walls))
        last = [{size: own[size] for size in sizes[-2:] if size in own} for own in walls.values()]
        cells = [_ends(sweep.values(system, metric)) for metric in (_WALL, _SPEED)]
        growths = [_exponents(list(walls.values())), _exponents(last)]
        for metric in list(_PANELS)[1:]:
            growths.append(_exponents(list(sweep.values(system, metric).values())))
        name = f"{names[system]}, {sweep.grows} ({sweep.beside})"
        span = f"{sizes[0]:,} to {sizes[-1]:,}"
        rows.append([name, span, str(len(walls)), *cells, *growths])
    return rows


def _by_size(values: _Values) -> dict[int, list[float]]:
    """Return the trials' values at each size, ascending."""
    found: dict[int, list[float]] = {}
    for own in values.values():
        for size, value in own.items():
            found.setdefault(size, []).append(value)
    return dict(sorted(found.items()))


def _ends(values: _Values) -> str:
    """Return the medians at the least and at the largest size."""
    middles = [median(trials) for trials in _by_size(values).values()]
    return f"{_said(middles[0])} to {_said(middles[-1])}" if middles else ""


def _said(value: float) -> str:
    """Return a number with three significant digits, without powers of ten."""
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{digits}f}"


def _exponents(trials: Sequence[Mapping[int, float]]) -> str:
    """Return the mean exponent over trials, and its range if there are several."""
    found = [one for one in map(exponent, trials) if one is not None]
    if not found:
        return ""
    every = (fmean(found), min(found), max(found))
    mean, low, high = (f"{round(one, 2) + 0.0:.2f}" for one in every)
    return mean if len(found) == 1 else f"{mean} ({low} to {high})"


FIGURE = Declared(draw, tables=())
