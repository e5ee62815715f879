"""Pause of a scale-out against the size of the state, in one picture for readers of the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from harness.metrics.statistics import Interval, percentile_interval
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.rescales import measure
from reports.measures.state_size import state_bytes
from reports.runs.selection import ReportRun

NAME = "pause-by-state"
_CHANGE = "1→2"


@dataclass(frozen=True)
class Shown:
    """Series of the picture: runs whose backend has these options."""

    label: str
    options: Mapping[str, str]
    """Options of the backend; ``backend`` is its name."""
    colour: str


SHOWN = (
    Shown(
        "stop-resume, cold processes",
        {"backend": "stop_resume", "start": "cold"},
        style.PALETTE[1],
    ),
    Shown(
        "stop-resume, pre-imported",
        {"backend": "stop_resume", "start": "preimported"},
        style.PALETTE[4],
    ),
    Shown(
        "warm restart",
        {"backend": "warm_restart", "start": "preimported"},
        style.PALETTE[5],
    ),
    Shown(
        "stop-free",
        {"backend": "stop_free", "start": "preimported", "transfer": "background"},
        style.PALETTE[0],
    ),
)
"""Series from top to bottom, as their pauses lie."""


@dataclass(frozen=True)
class Pause:
    """Median stopping time of one series, for one workload or one size of the state."""

    label: str
    workload: str
    state_mb: float | None
    """Parameters and optimizer state; None where the workload does not give it."""
    median_s: Interval


def pauses(runs: Sequence[ReportRun]) -> list[Pause]:
    """Return the pauses of a scale-out from one worker to two, by series, workload and size."""
    wanted = {run.run_id: shown for run in runs if (shown := _shown(run)) is not None}
    sizes = {run.run_id: state_bytes(run) for run in runs}
    found: dict[tuple[str, str, float | None], list[float]] = {}
    for trial in measure([run for run in runs if run.run_id in wanted]).trials:
        if trial.cell.change != _CHANGE or trial.stopping_time_s is None:
            continue
        size = sizes[trial.run_id]
        place = wanted[trial.run_id].label, trial.cell.workload, size and size / 1e6
        found.setdefault(place, []).append(trial.stopping_time_s)
    order = {shown.label: number for number, shown in enumerate(SHOWN)}
    places = sorted(found, key=lambda place: (order[place[0]], place[2] or 0.0, place[1]))
    return [Pause(*place, percentile_interval(found[place])) for place in places]


def _shown(run: ReportRun) -> Shown | None:
    backend = run.stored.config.get("backend", {})
    own = {**{str(key): str(value) for key, value in backend.items()}, "backend": run.backend}
    fitting = (s for s in SHOWN if all(own.get(k) == text for k, text in s.options.items()))
    return next(fitting, None)


def table(found: Sequence[Pause]) -> Table:
    """Return the numbers of the picture."""
    return Table(
        ("backend, state", "n", "pause p50 ms", "95% interval"),
        [
            (
                f"{one.label}, {_place(one)}",
                str(one.median_s.num_trials),
                f"{1000 * one.median_s.value:.3g}",
                interval_text(_in_ms(one.median_s), ".3g"),
            )
            for one in found
        ],
    )


def _place(one: Pause) -> str:
    return one.workload if one.state_mb is None else f"{one.state_mb:,.0f} MB"


def _in_ms(found: Interval) -> Interval:
    low, high = (None if end is None else 1000 * end for end in (found.low, found.high))
    return Interval(1000 * found.value, low, high, found.num_trials)


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return the picture; programs without a stated size are drawn in a panel of their own."""
    found = pauses(runs)
    sized = [one for one in found if one.state_mb is not None]
    named = [one for one in found if one.state_mb is None]
    if not sized:
        reason = "No live run of the selection grows a job whose state has a stated size."
        return [Drawing(NAME, "Pause of a scale-out", missing=reason)]
    figure = style.new_figure(4.4, 9.0)
    if named:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.0, 2.2])
        _programs(left, named)
    else:
        right = figure.subplots()
    _sizes(right, sized)
    title = _title(sized)
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.012, ha="left")
    drawn = {one.label for one in found}
    _legend(figure, drawn)
    return [
        Drawing(
            NAME,
            title,
            caption="Medians with 95 % intervals of how long the worker that is there stops "
            "training while a second one joins. Left: four small programs.",
            run_ids=[run.run_id for run in runs if _shown(run) is not None],
            figure=figure,
            table=table(found),
        )
    ]


def _title(sized: Sequence[Pause]) -> str:
    """Return what the picture shows, in the numbers that it shows."""
    free = [1000 * one.median_s.value for one in sized if one.label == SHOWN[-1].label]
    most = max(sized, key=lambda one: one.median_s.value)
    if not free:
        return f"A scale-out stops training for up to {human_time(most.median_s.value)}"
    low, high = f"{min(free):.1f}", f"{max(free):.1f}"
    pause = low if low == high else f"{low} to {high}"
    return (
        f"A worker joins: stop-free pauses for {pause} ms, {most.label.split(',')[0]} for up to"
        f" {human_time(most.median_s.value)}"
    )


def human_time(value_s: float) -> str:
    """Return a duration in its most readable unit, with two or three digits."""
    if value_s < 0.01:
        return f"{1000 * value_s:.1f} ms"
    if value_s < 1:
        return f"{1000 * value_s:.0f} ms"
    return f"{value_s:.1f} s"


def _sizes(axis: Axes, sized: Sequence[Pause]) -> None:
    for shown in SHOWN:
        line = [one for one in sized if one.label == shown.label]
        _bars(axis, [one.state_mb or 0.0 for one in line], line, shown, linestyle="-")
    axis.set_xscale("log")
    sizes = sorted({one.state_mb for one in sized if one.state_mb is not None})
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.minorticks_off()
    axis.set_xlabel("parameters and optimizer state (logarithmic)", fontsize=11)
    _times(axis)


def _size(value_mb: float) -> str:
    return f"{value_mb / 1000:g} GB" if value_mb >= 1000 else f"{value_mb:g} MB"


def _programs(axis: Axes, named: Sequence[Pause]) -> None:
    programs = sorted({one.workload for one in named})
    for shown in SHOWN:
        own = [one for one in named if one.label == shown.label]
        _bars(axis, [programs.index(one.workload) for one in own], own, shown, linestyle="none")
    axis.set_xticks(range(len(programs)), programs, rotation=25, ha="right", rotation_mode="anchor")
    axis.set_xlim(-0.5, len(programs) - 0.5)
    axis.set_xlabel("small programs", fontsize=11)
    _times(axis)
    axis.set_ylabel("training stops for (logarithmic)", fontsize=11)


def _bars(
    axis: Axes, at: Sequence[float], own: Sequence[Pause], shown: Shown, linestyle: str
) -> None:
    if not own:
        return
    middle = np.array([one.median_s.value for one in own])
    low = np.array([one.median_s.low or one.median_s.value for one in own])
    high = np.array([one.median_s.high or one.median_s.value for one in own])
    axis.errorbar(
        at, middle, yerr=[middle - low, high - middle], color=shown.colour, marker="o",
        markersize=6, capsize=3, linewidth=2, linestyle=linestyle, label=shown.label,
    )  # fmt: skip


def _times(axis: Axes) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=10.5)


def _tick(value_s: float) -> str:
    return f"{value_s:g} s" if value_s >= 1 else f"{1000 * value_s:g} ms"


def _legend(figure: Figure, drawn: set[str]) -> None:
    handles = {}
    for axis in figure.axes:
        handles.update(dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True)))
    labels = [shown.label for shown in SHOWN if shown.label in drawn]
    figure.legend(
        [handles[label] for label in labels], labels, loc="outside lower center",
        ncols=len(labels), fontsize=10.5,
    )  # fmt: skip


FIGURE = Declared(draw, tables=("jobs", "grants", "changes", "steps"))
