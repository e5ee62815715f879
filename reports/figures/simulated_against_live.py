"""Simulator compared with live runs: relative error of every metric, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes

from harness.metrics.statistics import MIN_TRIALS
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.fidelity import METRICS, Comparison, compare, engine_pairs
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Simulated against live"
FAR, LINEAR = 60, 10
"""Limits in %: the scale is logarithmic if an error is above the first, and linear up to the
second."""
TICKS = (5, 10, 30, 100, 300, 1000, 3000, 10000)


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and pair of a live and a simulated engine.

    A pair has a figure if a system ran in both engines.
    """
    drawings: list[Drawing] = []
    for (setting,), inside in groups(runs, "setting").items():
        for engines, chosen in engine_pairs(inside).items():
            found = compare(chosen)
            if found:
                title = f"{TITLE} ({' and '.join(engines)}): {setting}"
                name = f"simulated-against-live-{len(drawings) + 1}"
                drawings.append(_chart(name, title, found, chosen))
    if drawings:
        return drawings
    reason = "No system of the selection ran in both engines in the same setting."
    return [Drawing("simulated-live", TITLE, missing=reason)]


def _chart(
    name: str, title: str, found: Sequence[Comparison], runs: Sequence[ReportRun]
) -> Drawing:
    systems = sorted({one.system for one in found})
    metrics = [metric for metric in METRICS if any(one.metric == metric for one in found)]
    looks, names = style.Looks(systems), labels(runs)
    figure = style.new_figure(1.1 + len(metrics) * (0.16 + 0.15 * len(systems)))
    axis = figure.subplots()
    step = 0.72 / len(systems)
    for one in found:
        place = metrics.index(one.metric) + (systems.index(one.system) + 0.5) * step - 0.36
        colour, low_high = looks.colour(one.system), one.spread
        axis.barh(
            place, 100 * (low_high[1] - low_high[0]), left=100 * low_high[0], height=step * 0.8,
            color=colour, alpha=0.18, linewidth=0,
        )  # fmt: skip
        axis.plot([100 * error for error in one.errors], [place] * len(one.errors), "o",
                  color=colour, markersize=2.6, alpha=0.55, markeredgewidth=0)  # fmt: skip
        mean = one.error
        bar = None if mean.half_width is None else 100 * mean.half_width
        axis.errorbar(
            100 * mean.mean, place, xerr=bar, fmt="D" if bar is not None else "o", color=colour,
            markersize=4, capsize=2.5, linewidth=1.3,
            label=names[one.system] if one.metric == next(
                other.metric for other in found if other.system == one.system
            ) else None,
        )  # fmt: skip
    axis.axvline(0, color=style.INK, linewidth=0.9)
    axis.set_yticks(np.arange(len(metrics)), [METRICS[metric] for metric in metrics])
    axis.set_ylim(len(metrics) - 0.4, -0.6)
    _set_scale(axis, 100 * max(abs(error) for one in found for error in one.errors))
    axis.set_ylabel("metric (category)")
    axis.grid(visible=False, axis="y")
    style.put_note(figure, runs)
    style.put_legend(figure)
    return Drawing(
        name=name,
        title=title,
        caption=_caption(found),
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=_table(found, names),
    )


def _set_scale(axis: Axes, largest: float) -> None:
    """Set the scale of errors in %: logarithmic beyond ``LINEAR`` if one is above ``FAR``.

    On a linear scale, an error far above the others would put all others on one line.
    """
    label = "relative error, simulated / live − 1 (%"
    if largest > FAR:
        axis.set_xscale("symlog", linthresh=LINEAR, linscale=1.5)
        ticks = [tick for tick in TICKS if tick <= largest]
        axis.set_xticks([-tick for tick in ticks if tick <= 100] + [0, *ticks])
        axis.minorticks_off()
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        label += f"; logarithmic beyond ±{LINEAR}"
    axis.set_xlabel(f"{label})")


def _caption(found: Sequence[Comparison]) -> str:
    fewest = min(len(one.errors) for one in found)
    interval = (
        f"Diamonds are means over at least {fewest} live trials, with their 95% intervals"
        " (Student's t)."
        if fewest >= MIN_TRIALS
        else f"Some systems have only {fewest} live trial{'s' if fewest > 1 else ''}: no interval"
        f" is given below {MIN_TRIALS}, and circles mark such means."
    )
    return (
        f"{interval} Small dots are single trials. The pale bar spans the live trials around their "
        "mean: an error inside the bar is not distinguishable from the live spread."
        + (
            " Simulated values are means over drawn simulations; intervals include the "
            "uncertainty of these means."
            if any(any(one.draws) for one in found)
            else ""
        )
    )


def _table(found: Sequence[Comparison], names: Mapping[str, str]) -> Table:
    rows = []
    for one in found:
        mean, (low, high) = one.error, one.spread
        interval = (
            f"±{100 * mean.half_width:.1f}"
            if mean.half_width is not None
            else f"none, n < {MIN_TRIALS}"
        )
        rows.append(
            [f"{METRICS[one.metric]}: {names[one.system]}", f"{one.simulated:.4g}",
             f"{fmean(one.live):.4g}", f"{100 * mean.mean:+.1f}", interval,
             str(mean.num_trials), f"{100 * low:+.1f} to {100 * high:+.1f}"]
        )  # fmt: skip
    header = ["metric: system", "simulated", "live, mean", "error %", "95% interval", "n",
              "live spread %"]  # fmt: skip
    return Table(header, rows)


FIGURE = Declared(draw, general_place=5)
