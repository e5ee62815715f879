"""Effect of varied options on every scheduler, next to a bound that no schedule can beat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from harness.configuration.identity import portable
from harness.metrics.statistics import Estimate, estimate
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, flat_options, labels

TITLE = "Sensitivity"
_OUTCOMES = ("trace", "engine", "profile", "cluster")
"""Groups whose options may be varied; options of schedulers and backends make systems."""
_PANELS = (
    ("jct_mean_s", "jct_bound_mean_s", 3600.0, "mean JCT (h)"),
    ("deadline_satisfactory_ratio", "deadline_bound_ratio", 0.01, "deadlines met (% of jobs)"),
)
"""Metric, its bound, unit and label."""
_DROPPED = ("jobs_refused", "jobs_failed")
"""Counts of jobs that a mean of completion times leaves out."""
_LEAST_ON_AXIS, _MOST_ROWS = 3, 4
"""Smallest number of values for which an option has its own axis although other options vary too.
Then the largest number of combinations of the other options, each of which has a row of panels."""
_MOST_TOLD, _OTHERS = 8, "#C9CED4"
"""Most systems with colours of their own, and the colour of the others."""
_GREY = " Grey: the systems beyond the eight with the shortest mean JCT; the table names them."
_ROOM = 1.06
"""Height of a panel over its highest value."""
_BOUND = "bound (no system)"
_Point = tuple[Any, ...]
"""Values of a run's varied options, or of some of them."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: mean JCT and deadlines met over the values of the varied options.

    A scheduler that refuses jobs anywhere, or whose jobs fail, has no curve of mean JCT: this would
    make it look better. The bound is that of all jobs, from runs in which all finished. Options
    that only change together are one axis. If other options vary as well as a number, each
    combination of the others has a row.
    """
    options = {
        run.run_id: {
            name: value
            for name, value in flat_options(portable(run.stored.config)).items()
            if name.split(".")[0] in _OUTCOMES
        }
        for run in runs
    }
    names = _varied(list(options.values()))
    if not names:
        return [Drawing("sensitivity", TITLE, missing="No option of the selection was varied.")]
    along, across = _split(names, list(options.values()))
    points = {run_id: _point(own, along) for run_id, own in options.items()}
    rows_of: dict[_Point, list[ReportRun]] = {}
    for run in runs:
        rows_of.setdefault(_point(options[run.run_id], across), []).append(run)
    axis = _Axis.of(along, points.values())
    told = _told(runs)
    looks, shown = style.Looks(told), labels(runs)
    dropping = {run.system for run in runs if any(map(run.metrics.get, _DROPPED))}
    figure = style.new_figure(3.6 if len(rows_of) == 1 else 0.8 + 2.4 * len(rows_of))
    panels = figure.subplots(len(rows_of), len(_PANELS), squeeze=False)
    rows: list[list[str]] = []
    for row, point in zip(panels, sorted(rows_of, key=_order), strict=True):
        title = ", ".join(f"{_word(n)}: {_one(v)}" for n, v in zip(across, point, strict=True))
        for panel, (metric, bound, unit, label) in zip(row, _PANELS, strict=True):
            left_out = dropping if metric == "jct_mean_s" else set()
            curves = _curves(rows_of[point], points, metric, unit, left_out)
            least = _bounds(rows_of[point], points, bound, unit)
            _draw_curves(panel, axis, curves, looks, shown, told)
            _draw_bound(panel, axis, least)
            axis.finish(panel)
            panel.set_title(title)
            panel.set_ylabel(label)
            rows += _rows(axis, curves, least, f"{title}: {label}" if title else label, shown)
    style.put_note(figure, runs)
    style.put_legend(figure)
    return [
        Drawing(
            name="sensitivity",
            title=f"{TITLE} to {axis.label}",
            caption="Means over trials, with their 95% intervals (Student's t; bars, and ± in "
            "the table) from 5 trials on. The bound is not a system: by the profile no schedule "
            "can be better, and perhaps none can be as good. A scheduler that refuses jobs, or "
            "whose jobs fail, has no mean JCT here, because the mean would leave out those jobs."
            + (_GREY if len({run.system for run in runs}) > len(told) else ""),
            run_ids=[run.run_id for run in runs],
            figure=figure,
            table=Table(["system", *(f"{axis.label} {_said(v)}" for v in axis.places)], rows),
        )
    ]


def _told(runs: Sequence[ReportRun]) -> set[str]:
    """Return the systems with colours: all, or the best by the first metric if there are many."""
    systems = {run.system for run in runs}
    metric = _PANELS[0][0]
    means = {
        system: fmean(values)
        for system in systems
        if (
            values := [
                r.metrics[metric] for r in runs if r.system == system and metric in r.metrics
            ]
        )
    }
    if len(systems) <= _MOST_TOLD:
        return systems
    return {*sorted(means, key=lambda system: (means[system], system))[:_MOST_TOLD]}


@dataclass(frozen=True)
class _Axis:
    """Horizontal axis: the values of its options, in order, and their positions."""

    label: str
    places: Mapping[_Point, float]
    is_number: bool
    """True if the axis is a numeric scale, False if it is a row of labels."""

    @classmethod
    def of(cls, names: Sequence[str], points: Iterable[_Point]) -> _Axis:
        """Return the axis of these options, whose values in all runs are ``points``.

        Numbers that only change together form a scale by the first of them.
        """
        values = sorted(set(points), key=_order)
        scale = {point: float(point[0]) for point in values if all(map(_is_number, point))}
        is_scale = len({*scale.values()}) == len(values)
        places = scale if is_scale else {point: float(at) for at, point in enumerate(values)}
        return cls(", ".join(map(_word, names)), places, is_scale)

    def finish(self, panel: Axes) -> None:
        """Write the label and the ticks of the axis on a panel, and set the panel's height."""
        panel.set_xlabel(f"{self.label} (value of the option)")
        highest = panel.dataLim.y1
        panel.set_ylim(0, _ROOM * highest if 0 < highest < math.inf else None)
        if not self.is_number:
            panel.set_xticks(list(self.places.values()), [_said(p, "\n") for p in self.places])
        elif any(len(point) > 1 for point in self.places):
            panel.set_xticks(list(self.places.values()), [_said(point) for point in self.places])


def _varied(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the options that differ between runs."""
    names = sorted({name for own in options for name in own})
    return [name for name in names if len({repr(own.get(name)) for own in options}) > 1]


def _split(
    names: Sequence[str], options: Sequence[Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """Return the options along the horizontal axis, and the other options, which have rows of
    panels.

    Options with one-to-one values change together and stay together. A single numeric option is the
    axis if the other options give few rows; else all options are along the axis.
    """
    tied: list[list[str]] = []
    for name in names:
        fitting = (own for own in tied if _is_one_to_one(own[0], name, options))
        group = next(fitting, None)
        if group is None:
            tied.append([name])
        else:
            group.append(name)
    for group in sorted(tied, key=lambda own: -_num_values(own, options)):
        rest = [name for other in tied if other is not group for name in other]
        is_number = all(_is_number(own.get(name)) for own in options for name in group)
        is_axis = not rest or _num_values(group, options) >= _LEAST_ON_AXIS
        if is_number and is_axis and _num_values(rest, options) <= _MOST_ROWS:
            first = options[0]
            return sorted(group, key=lambda name: first[name]), rest
    return list(names), []


def _is_one_to_one(first: str, other: str, options: Sequence[Mapping[str, Any]]) -> bool:
    pairs = {(repr(own.get(first)), repr(own.get(other))) for own in options}
    return len(pairs) == len({one for one, _ in pairs}) == len({one for _, one in pairs})


def _num_values(names: Sequence[str], options: Sequence[Mapping[str, Any]]) -> int:
    return len({repr(_point(own, names)) for own in options})


def _point(own: Mapping[str, Any], names: Sequence[str]) -> _Point:
    values = (own.get(name) for name in names)
    return tuple(value if value.__hash__ else str(value) for value in values)


def _curves(
    runs: Sequence[ReportRun],
    points: Mapping[str, _Point],
    metric: str,
    unit: float,
    left_out: set[str],
) -> dict[str, dict[_Point, Estimate]]:
    """Return the mean of a metric over the trials at each point, by system."""
    found: dict[str, dict[_Point, list[float]]] = {}
    for run in sorted(runs, key=lambda run: run.system):
        if metric in run.metrics and run.system not in left_out:
            own = found.setdefault(run.system, {})
            own.setdefault(points[run.run_id], []).append(run.metrics[metric] / unit)
    return {
        system: {point: estimate(values) for point, values in own.items()}
        for system, own in found.items()
    }


def _bounds(
    runs: Sequence[ReportRun], points: Mapping[str, _Point], metric: str, unit: float
) -> dict[_Point, float]:
    """Return the bound at each point, from the runs in which all jobs finished."""
    found: dict[_Point, list[float]] = {}
    for run in runs:
        whole = run.metrics.get("jobs_finished") == run.metrics.get("jobs_submitted")
        if whole and metric in run.metrics:
            found.setdefault(points[run.run_id], []).append(run.metrics[metric])
    return {point: fmean(numbers) / unit for point, numbers in found.items()}


def _draw_curves(
    panel: Axes,
    axis: _Axis,
    curves: Mapping[str, Mapping[_Point, Estimate]],
    looks: style.Looks,
    shown: Mapping[str, str],
    told: set[str],
) -> None:
    for number, (system, own) in enumerate(curves.items(), 1):
        known = [point for point in axis.places if point in own]
        xs = [axis.places[point] for point in known]
        ys = [own[point].mean for point in known]
        halves = [own[point].half_width or 0.0 for point in known]
        look: dict[str, Any] = {"color": _OTHERS, "zorder": 1}
        look = looks.line(system) if system in told else look
        if not axis.is_number:  # markers next to each other, without lines
            shift = number / (len(curves) + 1) - 0.5
            xs = [x + 0.6 * shift for x in xs]
            look["linestyle"] = "none"
        size = 3.5 if axis.is_number else 6
        label = shown[system] if system in told else "other systems"
        panel.plot(xs, ys, label=label, marker="o", markersize=size, **look)
        if any(halves):
            colour = look["color"]
            panel.errorbar(xs, ys, halves, fmt="none", ecolor=colour, elinewidth=1, capsize=2)


def _draw_bound(panel: Axes, axis: _Axis, least: Mapping[_Point, float]) -> None:
    known = sorted((axis.places[point], value) for point, value in least.items())
    look: dict[str, Any] = {"label": _BOUND, "color": style.MUTED, "linestyle": (0, (4, 2))}
    if known and axis.is_number:
        panel.plot(*zip(*known, strict=True), **look)
    elif known:
        xs, ys = zip(*known, strict=True)
        panel.hlines(ys, [x - 0.4 for x in xs], [x + 0.4 for x in xs], **look)


def _rows(
    axis: _Axis,
    curves: Mapping[str, Mapping[_Point, Estimate]],
    least: Mapping[_Point, float],
    label: str,
    shown: Mapping[str, str],
) -> list[list[str]]:
    rows = [
        [f"{shown[system]}: {label}", *(_cell(own.get(point)) for point in axis.places)]
        for system, own in curves.items()
    ]
    bounds = (f"{least[point]:.1f}" if point in least else "" for point in axis.places)
    return [*rows, [f"bound: {label}", *bounds]] if least else rows


def _cell(found: Estimate | None) -> str:
    if found is None:
        return ""
    half = found.half_width
    return f"{found.mean:.1f}" if half is None else f"{found.mean:.1f} ±{half:.1f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _order(point: _Point) -> tuple[tuple[bool, float, str], ...]:
    return tuple(
        (not _is_number(value), float(value) if _is_number(value) else 0.0, str(value))
        for value in point
    )


def _word(name: str) -> str:
    """Return an option's name as a label shows it."""
    return name.rsplit(".", 1)[-1].strip("_").replace("_", " ")


def _one(value: Any) -> str:
    return f"{value:g}" if _is_number(value) else str(value)


def _said(point: _Point, between: str = ", ") -> str:
    return between.join(map(_one, point))


FIGURE = Declared(draw, tables=())
