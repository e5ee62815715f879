"""Lengths of the intervals in which slots were idle between two jobs (EDL, figure 4a)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.measures.cluster_numbers import SHORT_IDLE_S, idle_density, idle_intervals_s
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Idle intervals of slots"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and engine, of the first trial of every system.

    A curve is the density of the lengths of idle intervals.
    """
    parts = groups(runs, "setting", "engine")
    drawings = [
        _chart(f"idle-intervals-{number}", f"{TITLE}: {setting}, {engine}", inside)
        for number, ((setting, engine), inside) in enumerate(parts.items(), 1)
    ]
    return drawings or [Drawing("idle-intervals", TITLE, missing="No run was selected.")]


def _chart(name: str, title: str, runs: Sequence[ReportRun]) -> Drawing:
    looks, names = style.Looks(run.system for run in runs), labels(runs)
    firsts = [own[0] for own in groups(runs, "system").values()]
    found = [(run, curve) for run in firsts if (curve := idle_density(run)) is not None]
    if not found:
        return Drawing(name, title, missing="Slots were idle between two jobs less than 100 times.")
    figure = style.new_figure(3.2)
    axis = figure.subplots()
    for run, (middles_s, density) in found:
        lengths_s = np.array(idle_intervals_s(run))
        below = float((lengths_s < SHORT_IDLE_S).mean())
        label = f"{names[run.system]}: {lengths_s.size:,} intervals, {below:.0%} below 4 min"
        axis.plot(middles_s, density, marker="o", ms=4, label=label, **looks.line(run.system))
    axis.axvline(SHORT_IDLE_S, color=style.MUTED, lw=0.9, linestyle=(0, (4, 2)), label="4 min")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("length of the idle interval (s, logarithmic)")
    axis.set_ylabel("density (count/s, logarithmic)")
    style.plain_log_ticks(axis.xaxis)
    runs = [run for run, _ in found]
    style.put_note(figure, runs)
    style.put_legend(figure)
    return Drawing(
        name=name,
        title=title,
        caption="Number of intervals between two jobs on one slot, by length, in the first "
        "trial: ten bins of equal logarithmic width from 10 s on, each divided by its "
        "width. A power law would be a straight falling line.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
    )


FIGURE = Declared(draw, tables=("grants",))
