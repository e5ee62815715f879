"""Share of the deadlines that each scheduler met, as bars next to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes

from harness.metrics.statistics import Estimate, estimate
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Deadlines met"
_METRIC, _BOUND = "deadline_satisfactory_ratio", "deadline_bound_ratio"
_TALLEST = 112.0
"""Top of the axis, %: room for the number above a bar of 100."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and engine: the share of deadlines met by each system.

    Bars are ordered from the lowest to the highest. ElasticFlow's figures 6 and 8a show the same
    ratio.
    """
    drawings = []
    rated = [run for run in runs if _METRIC in run.metrics]
    parts = groups(rated, "setting", "engine")
    for number, ((setting, engine), inside) in enumerate(parts.items(), 1):
        met = {
            system: [100.0 * run.metrics[_METRIC] for run in trials]
            for (system,), trials in groups(inside, "system").items()
        }
        order = sorted(met, key=lambda system: (fmean(met[system]), system))
        figure = style.new_figure(3.7)
        axis = figure.subplots()
        _draw_bars(axis, {system: met[system] for system in order})
        names = _short(labels(inside))
        axis.set_xticks(
            range(len(order)),
            [names[system] for system in order],
            rotation=30,
            ha="right",
            rotation_mode="anchor",
        )
        _draw_bound(axis, inside)
        axis.set_ylim(0, _TALLEST)
        axis.set_yticks(range(0, 101, 20))
        axis.set_xlabel("scheduler (verification level)")
        axis.set_ylabel("deadlines met (% of jobs)")
        axis.grid(visible=False, axis="x")
        style.put_note(figure, inside)
        style.put_legend(figure)
        drawings.append(
            Drawing(
                name=f"deadlines-met-{number}",
                title=f"{TITLE}: {setting}, {engine}",
                caption="Of the jobs with a deadline, the share that finished in time; a refused "
                "job counts as a miss. Means over trials; dots are single trials, lines 95% "
                "intervals over them (Student's t), from 5 trials on." + _on_bound(inside),
                run_ids=[run.run_id for run in inside],
                figure=figure,
            )
        )
    return drawings or [Drawing("deadlines-met", TITLE, missing="No job had a deadline.")]


def _draw_bars(axis: Axes, met: Mapping[str, Sequence[float]]) -> None:
    """Draw bars in the order given, all in one colour because their names are below them."""
    means: list[Estimate] = [estimate(values) for values in met.values()]
    halves = [one.half_width or 0.0 for one in means]
    axis.bar(
        range(len(met)),
        [one.mean for one in means],
        0.72,
        yerr=halves if any(halves) else None,
        color=style.PALETTE[5],
        error_kw={"elinewidth": 1.1, "capsize": 3, "ecolor": style.INK},
    )
    for place, values in enumerate(met.values()):
        if len(values) > 1:
            axis.plot(
                [place] * len(values), values, "o",
                color=style.INK, markersize=2.6, alpha=0.5, markeredgewidth=0,
            )  # fmt: skip
    for place, (one, half, values) in enumerate(zip(means, halves, met.values(), strict=True)):
        axis.annotate(
            f"{one.mean:.1f}",
            (place, max(one.mean + half, *values)),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=style.SMALL_PT,
            bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.5},
            zorder=4,
        )


def _bounds(runs: Sequence[ReportRun]) -> list[float]:
    """Return the bounds of runs in which all jobs finished; others cover only some deadlines."""
    return [
        100.0 * run.metrics[_BOUND]
        for run in runs
        if _BOUND in run.metrics
        and run.metrics.get("jobs_finished") == run.metrics.get("jobs_submitted")
    ]


def _draw_bound(axis: Axes, runs: Sequence[ReportRun]) -> None:
    found = _bounds(runs)
    if found:
        axis.axhline(
            fmean(found), color=style.MUTED, linestyle=(0, (4, 2)), label="bound (no system)"
        )


def _on_bound(runs: Sequence[ReportRun]) -> str:
    if not _bounds(runs):
        return ""
    return (
        " The bound, mean over trials too, is not a system: by the profile no schedule can meet "
        "more; perhaps no schedule can meet as many."
    )


def _short(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names for the bars, without the backend if all systems have the same."""
    rests = {name.partition(" / ")[2] for name in names.values()}
    if len(rests) > 1:
        return dict(names)
    return {system: name.partition(" / ")[0] for system, name in names.items()}


FIGURE = Declared(draw, tables=())
