"""Samples lost in a change, over the length of a step, for each state size or workload."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from harness.metrics.statistics import percentile_interval
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.rescales import (
    BASELINE,
    SHARE,
    Measured,
    Noise,
    RescaleTrial,
    measure,
    net_losses,
)
from reports.measures.state_size import state_bytes
from reports.runs.selection import ReportRun

TITLE = "Loss against the length of a step"
_LINEAR_TO = 0.1
"""Steps up to which the axis of losses is linear; it is logarithmic beyond if it is long enough."""

_Panel = tuple[float, str]
"""Key of a panel: state in bytes and an empty name, or zero and the name of the workload."""
_Length = tuple[float, int]
"""Factors that make steps longer: dilation of the profile's steps, and samples in each step."""
_Point = tuple[_Panel, str, _Length]
"""Key of a curve: panel, system and length of steps."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each change of size."""
    measured = measure(runs)
    own = {run.run_id: run for run in measured.runs}
    known = _of_several_lengths(
        [
            (_point(trial, own[trial.run_id]), trial)
            for trial in measured.trials
            if trial.net_steps is not None
        ]
    )
    changes = sorted({(t.cell.kind, t.cell.before, t.cell.after) for _, t in known})
    drawings = [
        _chart(f"loss-over-step-time-{number}", measured, known, change)
        for number, change in enumerate(changes, 1)
    ]
    reason = "No live runs of the selection rescale one workload with steps of several lengths."
    return drawings or [Drawing("loss-over-step-time", TITLE, missing=reason)]


def _point(trial: RescaleTrial, run: ReportRun) -> _Point:
    size = state_bytes(run)
    panel = (0.0, trial.cell.workload) if size is None else (size, "")
    return panel, trial.cell.system, (run.dilation, trial.global_batch)


def _of_several_lengths(
    found: Sequence[tuple[_Point, RescaleTrial]],
) -> list[tuple[_Point, RescaleTrial]]:
    """Return the trials without those of workloads whose steps have only one length."""
    lengths: dict[_Panel, set[_Length]] = {}
    for (panel, _, length), _ in found:
        lengths.setdefault(panel, set()).add(length)
    return [(point, trial) for point, trial in found if point[0][0] or len(lengths[point[0]]) > 1]


def _chart(
    name: str,
    measured: Measured,
    known: Sequence[tuple[_Point, RescaleTrial]],
    change: tuple[str, int, int],
) -> Drawing:
    points: dict[_Point, list[RescaleTrial]] = {}
    for point, trial in known:
        cell = trial.cell
        if (cell.kind, cell.before, cell.after) == change:
            points.setdefault(point, []).append(trial)
    noise = [
        one for one in measured.noise if (one.cell.kind, one.cell.before, one.cell.after) == change
    ]
    runs = {run.run_id: run for run in measured.runs}
    baselines = {t.cell.system for _, t in known if runs[t.run_id].backend == BASELINE}
    systems = sorted({system for _, system, _ in points})
    shown = sorted({panel for panel, _, _ in points})
    looks = style.Looks(systems)
    figure = style.new_figure(3.4)
    panels = figure.subplots(1, len(shown), sharex=True, sharey=True, squeeze=False)[0]
    lengths_ms = [1000 * _step_s(trials) for trials in points.values()]
    for axis, panel in zip(panels, shown, strict=True):
        for system in systems:
            own = [points[key] for key in sorted(points) if key[:2] == (panel, system)]
            _line(axis, own, looks, system, is_baseline=system in baselines)
        cells = {trial.cell for key in points if key[0] == panel for trial in points[key]}
        _band(axis, [one for one in noise if one.cell in cells])
        axis.set_title(f"{_named(panel)} of state" if panel[0] else _named(panel))
        axis.set_xlim(min(lengths_ms) / 1.3, max(lengths_ms) * 1.3)
        axis.set_xscale("log")
        axis.set_xlabel("step before the change (ms)")
        style.plain_log_ticks(axis.xaxis)
    # The axis is shared by all panels. A short logarithmic axis would show no number except zero.
    is_logarithmic = panels[0].get_ylim()[1] > 2 * _LINEAR_TO
    if is_logarithmic:
        panels[0].set_yscale("symlog", linthresh=_LINEAR_TO)
        style.plain_log_ticks(panels[0].yaxis, linear_to=_LINEAR_TO)
    panels[0].set_ylabel("samples lost, net (steps)")
    named: dict[str, Any] = {}
    for axis in panels:
        handles, labels = axis.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(
        handles=list(named.values()), labels=list(named), loc="outside upper left", ncols=3
    )
    ids = {trial.run_id for trials in points.values() for trial in trials}
    used = [run for run in measured.runs if run.run_id in ids]
    style.put_count_note(figure, [len(trials) for trials in points.values()], used)
    cell = next(iter(points.values()))[0].cell
    return Drawing(
        name=name,
        title=f"{TITLE}: {cell.change}",
        caption="Medians; bars from the lower to the upper quartile. Dashed: a tenth of the loss "
        "of a warm restart. Grey: central 90% of the A/A trials, in which nothing was "
        "changed. Net: steps after the switch are compared with the speed at which the "
        "new size settles." + (f" Logarithmic beyond ±{_LINEAR_TO:g}." if is_logarithmic else ""),
        run_ids=[run.run_id for run in used],
        figure=figure,
        table=_table(points, baselines),
    )


def _named(panel: _Panel) -> str:
    size, workload = panel
    return workload or f"{size / 1e6:,.0f} MB"


def _line(
    axis: Axes,
    points: Sequence[Sequence[RescaleTrial]],
    looks: style.Looks,
    system: str,
    is_baseline: bool,
) -> None:
    lengths = [1000 * _step_s(trials) for trials in points]
    quartiles = [np.percentile(net_losses(trials), [25, 50, 75]) for trials in points]
    if not lengths:
        return
    low, middle, high = (np.array(values) for values in zip(*quartiles, strict=True))
    axis.errorbar(
        lengths, middle, yerr=[middle - low, high - middle], marker="o", markersize=4, capsize=2,
        linewidth=1.3, label=system, **looks.line(system),
    )  # fmt: skip
    if is_baseline:
        axis.plot(
            lengths, middle / SHARE, marker="_", linestyle=style.DASHES[1], linewidth=1,
            color=looks.line(system)["color"], label=f"a tenth of {system}",
        )  # fmt: skip


def _band(axis: Axes, noise: Sequence[Noise]) -> None:
    found = [one.net_steps for one in noise if one.net_steps is not None]
    if found:
        low, high = np.percentile(found, [5, 95])
        axis.axhspan(low, high, color=style.MUTED, alpha=0.2, label="A/A: nothing was changed")
    axis.axhline(0, color=style.INK, linewidth=0.7)


def _table(points: dict[_Point, list[RescaleTrial]], baselines: set[str]) -> Table:
    rows = []
    for (panel, system, length), trials in sorted(points.items()):
        lost = net_losses(trials)
        beside = [
            median(net_losses(own))
            for (other, name, long), own in points.items()
            if name in baselines and (other, long) == (panel, length)
        ]
        is_told = len(beside) == 1 and system not in baselines  # several may differ in warmth
        share = f"{median(lost) / beside[0]:.2f}" if is_told else ""
        middle = percentile_interval(lost)
        rows.append(
            [f"{system}, {_named(panel)}, {1000 * _step_s(trials):,.0f} ms", str(len(lost)),
             f"{middle.value:.3f}", interval_text(middle, ".3f"), share]
        )  # fmt: skip
    about = "system, state or workload, step"
    heads = [about, "n", "lost p50, steps", "95% interval", "of a warm restart's"]
    return Table(heads, rows)


def _step_s(trials: Sequence[RescaleTrial]) -> float:
    return median(trial.window.period_s for trial in trials if trial.window is not None)


FIGURE = Declared(draw)
