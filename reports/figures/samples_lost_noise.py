"""Samples lost to rescales and in A/A trials: the distributions of both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.rescales import Measured, measure
from reports.runs.selection import ReportRun

TITLE = "Samples lost in rescales, and in A/A trials without a change"
LEAST = 3


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each change of size: cumulative distributions, a panel per workload."""
    measured = measure(runs)
    changes = sorted({(c.kind, c.before, c.after) for c in measured.by_cell()})
    drawings = []
    for number, (kind, before, after) in enumerate(changes, 1):
        drawing = _chart(f"samples-lost-noise-{number}", measured, kind, before, after)
        if drawing is not None:
            drawings.append(drawing)
    reason = f"No live run of the selection has {LEAST} rescales with enough steps around them."
    return drawings or [Drawing("samples-lost-noise", TITLE, missing=reason)]


def _chart(name: str, measured: Measured, kind: str, before: int, after: int) -> Drawing | None:
    losses: dict[tuple[str, str], list[float]] = {}
    noise: dict[str, list[float]] = {}
    ids, change = set(), ""
    for cell, trials in measured.by_cell().items():
        if (cell.kind, cell.before, cell.after) != (kind, before, after):
            continue
        change = cell.change
        found = [trial.lost_steps for trial in trials if trial.lost_steps is not None]
        if len(found) >= LEAST:
            losses.setdefault((cell.workload, cell.system), []).extend(found)
            ids |= {trial.run_id for trial in trials}
            own = measured.noise_of(
                setting=cell.setting, workload=cell.workload, system=cell.system, kind=kind,
                before=before, after=after,
            )  # fmt: skip
            noise.setdefault(cell.workload, []).extend(one.lost_steps for one in own)
    if not losses:
        return None
    workloads = sorted({workload for workload, _ in losses})
    systems = sorted({system for _, system in losses})
    looks = style.Looks(trial.cell.system for trial in measured.trials)
    columns = min(2, len(workloads))
    lines = -(-len(workloads) // columns)
    figure = style.new_figure(0.9 + 2.1 * lines)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axis, workload in zip(axes.flat, workloads, strict=False):
        if noise[workload]:
            label = "A/A: nothing was changed" if axis is axes.flat[0] else None
            axis.ecdf(noise[workload], color=style.MUTED, linewidth=2.4, alpha=0.6, label=label)
        for system in systems:
            if (workload, system) in losses:
                axis.ecdf(
                    losses[workload, system],
                    **looks.line(system),
                    linewidth=1.4,
                    label=system if axis is axes.flat[0] else None,
                )
        axis.axvline(0, color=style.INK, linewidth=0.7)
        count = sum(len(losses.get((workload, system), ())) for system in systems)
        axis.set_title(f"{workload} (n = {count}, A/A {len(noise[workload])})")
    for axis in axes.flat[len(workloads) :]:
        axis.set_visible(False)
    for axis in axes.flat:
        axis.set_xscale("symlog", linthresh=1.0)
    for axis in axes.flat:
        style.plain_log_ticks(axis.xaxis, linear_to=1.0)
        axis.set_xlabel("samples lost (steps, logarithmic beyond ±1)")
        axis.set_ylabel("trials up to this loss (share)")
        axis.label_outer()
    figure.legend(loc="outside upper left", ncols=3)
    own_runs = [run for run in measured.runs if run.run_id in ids]
    style.put_count_note(figure, [len(values) for values in losses.values()], own_runs)
    return Drawing(
        name=name,
        title=f"{TITLE}: {change}",
        caption="Each curve is the share of changes whose loss is at most the given number of "
        "steps. The grey curve evaluates the same formula at random moments without a change, "
        "once for every change and over as long a time. There are fewer A/A trials if no stretch "
        "of undisturbed steps was long enough.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=_table(losses, noise),
    )


def _table(losses: dict[tuple[str, str], list[float]], noise: dict[str, list[float]]) -> Table:
    named = [(f"{workload}: {system}", v) for (workload, system), v in sorted(losses.items())]
    named += [(f"{workload}: A/A", values) for workload, values in sorted(noise.items()) if values]
    rows = []
    for label, values in named:
        points = np.percentile(values, [5, 25, 50, 75, 95])
        rows.append([label, str(len(values)), *(f"{point:.2f}" for point in points)])
    return Table(["lost, steps", "n", "p5", "p25", "p50", "p75", "p95"], rows)


FIGURE = Declared(draw)
