"""Queueing time, total time and additional jobs over the size of the cluster (Hu et al.)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from harness.metrics.statistics import Estimate, estimate
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.pools import PER, Pair, pairs
from reports.runs.selection import ReportRun, labels

TITLE = "Schedulers over the size of the cluster"
_TIMES = {
    "queueing_mean_s": "mean queueing time (min)",
    "jct_mean_s": "mean total time (min)",
}
_Values = dict[int, list[float]]
"""Values by number of slots, one of every trial."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return curves of both times for each scenario, then bars of additional jobs of all scenarios.

    The curves are Hu et al.'s figures 9 and 10, the bars their figures 11 to 15.
    """
    found = pairs(runs)
    if not found:
        reason = "No two schedulers of the selection ran the same trace on the same slots."
        return [Drawing("node-pools", TITLE, missing=reason)]
    by_scenario: dict[str, list[Pair]] = {}
    for pair in found:
        by_scenario.setdefault(pair.scenario, []).append(pair)
    drawings = [
        _curves(f"node-pools-{number}", scenario, own)
        for number, (scenario, own) in enumerate(by_scenario.items(), 1)
    ]
    return [*drawings, _bars("node-pools-additional", by_scenario)]


def _runs(found: Sequence[Pair]) -> list[ReportRun]:
    both = [run for pair in found for run in (pair.baseline_run, pair.run)]
    return list({run.run_id: run for run in both}.values())


def _curves(name: str, scenario: str, found: Sequence[Pair]) -> Drawing:
    runs = _runs(found)
    systems = sorted({run.system for run in runs})
    looks, names = style.Looks(systems), labels(runs)
    figure = style.new_figure(3.1)
    axes = figure.subplots(1, len(_TIMES))
    for axis, (metric, label) in zip(axes, _TIMES.items(), strict=True):
        for number, system in enumerate(systems):
            values: _Values = {}
            for run in runs:
                if run.system == system:
                    values.setdefault(run.num_slots, []).append(run.metrics[metric] / 60.0)
            look = looks.line(system)
            _line(axis, values, names[system], look, number)
        axis.set_xlabel("slots of the cluster (count)")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.set_xticks(sorted({run.num_slots for run in runs}))
    style.put_legend(figure)
    style.put_note(figure, runs)
    rows = [_row(slots, names[system], own) for (slots, system), own in _grouped(found).items()]
    return Drawing(
        name=name,
        title=f"{TITLE}: {scenario}",
        caption="Means over trials; dots are single trials, bars 95% intervals over them "
        "(Student's t), from 5 trials on. The table compares every system with "
        f"{found[0].baseline_run.label}; additional jobs are those that a system finishes more "
        f"while the baseline finishes {PER}: by the mean total times (100 times their ratio, "
        "minus 100), and by counting at the baseline's 100th, 200th ... job.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            ["slots: system", "trials", "queueing, min", "baseline", "less, %", "total, min",
             "baseline", "less, %", "additional jobs", "by counting"],
            rows,
        ),
    )  # fmt: skip


def _grouped(found: Sequence[Pair]) -> dict[tuple[int, str], list[Pair]]:
    groups: dict[tuple[int, str], list[Pair]] = {}
    for pair in found:
        groups.setdefault((pair.num_slots, pair.system), []).append(pair)
    return dict(sorted(groups.items()))


def _line(
    axis: Axes, values: Mapping[int, Sequence[float]], label: str, look: dict[str, Any], number: int
) -> None:
    slots = sorted(values)
    means = [estimate(values[count]) for count in slots]
    if any(one.num_trials > 1 for one in means):
        at = [count for count in slots for _ in values[count]]
        dots = [value for count in slots for value in values[count]]
        axis.scatter(at, dots, s=7, alpha=0.45, linewidths=0, color=look["color"])
    axis.errorbar(
        slots, [one.mean for one in means], yerr=_half_widths(means),
        marker="os^Dv"[number % 5], markersize=4, capsize=2, label=label, **look,
    )  # fmt: skip


def _half_widths(means: Sequence[Estimate]) -> list[float] | None:
    """Return the half widths of the intervals; None if any mean has too few trials."""
    widths = [one.half_width for one in means]
    return None if None in widths else [width or 0.0 for width in widths]


def _row(slots: int, system: str, found: Sequence[Pair]) -> list[str]:
    cells = [f"{slots}: {system}", str(len(found))]
    for metric in _TIMES:
        both = [pair.minutes(metric) for pair in found]
        baseline, own = (fmean(column) for column in zip(*both, strict=True))
        less = f"{100 * (1 - own / baseline):.1f}" if baseline > 0 else ""
        cells += [f"{own:.2f}", f"{baseline:.2f}", less]
    counted = [pair.additional_by_count() for pair in found]
    known = [value for value in counted if value is not None]
    return [
        *cells,
        _with_interval([pair.additional_by_time() for pair in found]),
        _with_interval(known) if known else "",
    ]


def _with_interval(values: Sequence[float]) -> str:
    mean = estimate(values)
    text = f"{mean.mean:+.1f}"
    return text if mean.half_width is None else f"{text} ±{mean.half_width:.1f}"


def _bars(name: str, by_scenario: Mapping[str, Sequence[Pair]]) -> Drawing:
    every = [pair for found in by_scenario.values() for pair in found]
    runs = _runs(every)
    series = {
        (scenario, system): [pair for pair in found if pair.system == system]
        for scenario, found in by_scenario.items()
        for system in sorted({pair.system for pair in found})
    }
    names = labels(runs)
    looks = style.Looks(map(": ".join, series))
    sizes = sorted({pair.num_slots for pair in every})
    figure = style.new_figure(3.1)
    axis = figure.subplots()
    width = 0.8 / len(series)
    for number, (key, found) in enumerate(series.items()):
        values: _Values = {}
        for pair in found:
            values.setdefault(pair.num_slots, []).append(pair.additional_by_time())
        means = {size: estimate(values[size]) for size in sizes if size in values}
        places = np.array([sizes.index(size) for size in means])
        bars = axis.bar(
            places + (number - (len(series) - 1) / 2) * width,
            [one.mean for one in means.values()],
            0.92 * width,
            yerr=_half_widths(list(means.values())),
            color=looks.colour(": ".join(key)),
            label=f"{key[0]}: {names[key[1]]}" if len(series) > 1 else names[key[1]],
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": style.INK},
        )
        axis.bar_label(bars, fmt="{:.1f}", fontsize=style.SMALL_PT, padding=1)
    axis.axhline(0, color=style.INK, linewidth=0.9)
    axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axis.set_xlabel("slots of the cluster (count)")
    axis.set_ylabel(f"additional jobs (count per {PER})")
    axis.grid(visible=False, axis="x")
    axis.margins(y=0.12)
    style.put_legend(figure)
    style.put_note(figure, runs)
    return Drawing(
        name=name,
        title="Additional jobs over the size of the cluster",
        caption=f"Jobs that a system trains in addition while {every[0].baseline_run.label} "
        f"trains {PER}, by the ratio of their mean total times in the same trial; means over "
        "trials, bars are 95% intervals over them, from 5 trials on. Scenarios are named by "
        "trace and, if profiles differ, by profile.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
    )


FIGURE = Declared(draw, tables=())
