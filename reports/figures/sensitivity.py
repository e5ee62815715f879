"""What one varied option does to every scheduler, beside what no schedule can beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from reports import style
from reports.drawing import Drawing, Table
from reports.selection import ReportRun, flat_options, labels

TITLE = "Sensitivity"
_OUTCOMES = ("trace", "engine", "profile", "cluster")
"""Groups whose options may be varied; those of schedulers and backends make systems."""
_PANELS = (
    ("jct_mean_s", "jct_bound_mean_s", 3600.0, "mean JCT (h)"),
    ("deadline_satisfactory_ratio", "deadline_bound_ratio", 0.01, "deadlines met (% of jobs)"),
)
"""Metric, its bound, unit and label."""

_BOUND = "bound (no system)"
_Point = tuple[Any, ...]
"""Values of the varied options of a run."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """One figure: mean JCT and deadlines met over the values of the options that were varied.

    A scheduler that refuses jobs anywhere has no curve of mean JCT: it would look better for it.
    The bound is that of all jobs, from runs in which all finished.
    """
    options = {
        run.run_id: {
            name: value
            for name, value in flat_options(run.stored.config).items()
            if name.split(".")[0] in _OUTCOMES
        }
        for run in runs
    }
    varied = _varied(list(options.values()))
    if not varied:
        return [Drawing("sensitivity", TITLE, missing="No option of the selection was varied.")]
    points = {run_id: tuple(own.get(name) for name in varied) for run_id, own in options.items()}
    values = sorted(set(points.values()), key=_order)
    is_number = len(varied) == 1 and all(_is_number(value) for (value,) in values)
    places: dict[_Point, float] = {value: float(place) for place, value in enumerate(values)}
    if is_number:
        places = {value: float(str(value[0])) for value in values}
    label = ", ".join(name.rsplit(".", 1)[-1].strip("_") for name in varied).replace("_", " ")
    curves = _curves(runs, points)
    looks, names = style.Looks(curves), labels(runs)
    figure = style.new_figure(3.6)
    axes = figure.subplots(1, len(_PANELS), squeeze=False)[0]
    header = ["system", *(f"{label} {_said(value)}" for value in values)]
    rows = []
    for axis, (metric, bound, unit, title) in zip(axes, _PANELS, strict=True):
        for system, own in curves.items():
            line = _means(own, metric, unit, is_fair=metric != "jct_mean_s")
            if line:
                xs = [places[value] for value in values if value in line]
                ys = [line[value] for value in values if value in line]
                look = looks.line(system)
                if not is_number:  # beside one another, and nothing between two places
                    shift = (list(curves).index(system) + 1) / (len(curves) + 1) - 0.5
                    xs = [x + 0.6 * shift for x in xs]
                    look["linestyle"] = "none"
                size = 3.5 if is_number else 6
                axis.plot(xs, ys, label=names[system], marker="o", markersize=size, **look)
                cells = (f"{line[value]:.1f}" if value in line else "" for value in values)
                rows.append([f"{names[system]}: {title}", *cells])
        least = _bounds(runs, points, bound, unit)
        _draw_bound(axis, places, least, is_number=is_number)
        cells = (f"{least[value]:.1f}" if value in least else "" for value in values)
        rows.append([f"bound: {title}", *cells])
        axis.set_xlabel(f"{label} (value of the option)")
        axis.set_ylabel(title)
        axis.set_ylim(bottom=0)
        if not is_number:
            axis.set_xticks(list(places.values()), [_said(value, "\n") for value in places])
    style.put_note(figure, runs)
    style.put_legend(figure)
    return [
        Drawing(
            name="sensitivity",
            title=f"{TITLE} to {label}",
            caption="Means over trials. The bound is no system: by the profile no schedule could be"
            " better, and none may be as good. A scheduler that refuses jobs has no mean JCT here,"
            " as only the jobs that it takes would count.",
            run_ids=[run.run_id for run in runs],
            figure=figure,
            table=Table(header, rows),
        )
    ]


def _varied(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the options that differ between runs."""
    names = sorted({name for own in options for name in own})
    return [name for name in names if len({repr(own.get(name)) for own in options}) > 1]


def _curves(
    runs: Sequence[ReportRun], points: Mapping[str, _Point]
) -> dict[str, dict[_Point, list[ReportRun]]]:
    """Runs by system and by the values of the varied options."""
    curves: dict[str, dict[_Point, list[ReportRun]]] = {}
    for run in sorted(runs, key=lambda run: run.system):
        curves.setdefault(run.system, {}).setdefault(points[run.run_id], []).append(run)
    return curves


def _means(
    own: Mapping[_Point, Sequence[ReportRun]], metric: str, unit: float, *, is_fair: bool
) -> dict[_Point, float]:
    """Mean of a metric over the trials at each point."""
    refuses = any(run.metrics.get("jobs_refused") for trials in own.values() for run in trials)
    if refuses and not is_fair:
        return {}
    known = {
        point: [run.metrics[metric] for run in trials if metric in run.metrics]
        for point, trials in own.items()
    }
    return {point: fmean(numbers) / unit for point, numbers in known.items() if numbers}


def _bounds(
    runs: Sequence[ReportRun], points: Mapping[str, _Point], metric: str, unit: float
) -> dict[_Point, float]:
    """The bound at each point, of the runs in which all jobs finished."""
    found: dict[_Point, list[float]] = {}
    for run in runs:
        whole = run.metrics.get("jobs_finished") == run.metrics.get("jobs_submitted")
        if whole and metric in run.metrics:
            found.setdefault(points[run.run_id], []).append(run.metrics[metric])
    return {point: fmean(numbers) / unit for point, numbers in found.items()}


def _draw_bound(
    axis: Axes, places: Mapping[_Point, float], least: Mapping[_Point, float], *, is_number: bool
) -> None:
    known = sorted((places[point], value) for point, value in least.items())
    look: dict[str, Any] = {"label": _BOUND, "color": style.MUTED, "linestyle": (0, (4, 2))}
    if known and is_number:
        axis.plot(*zip(*known, strict=True), **look)
    elif known:
        xs, ys = zip(*known, strict=True)
        axis.hlines(ys, [x - 0.4 for x in xs], [x + 0.4 for x in xs], **look)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _order(point: _Point) -> tuple[tuple[bool, float, str], ...]:
    return tuple(
        (not _is_number(value), float(value) if _is_number(value) else 0.0, str(value))
        for value in point
    )


def _said(point: _Point, between: str = ", ") -> str:
    return between.join(f"{value:g}" if _is_number(value) else str(value) for value in point)
