"""Utilization and cluster efficiency over time, of all systems in one panel (EDL, figure 16)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.metrics.columns import Floats
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.figures.slots_in_use import binned
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Utilization and cluster efficiency over time"
_BINS = 150
"""Number of equal stretches of the longest run; a curve shows the mean over each stretch."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and engine, of the first trial of every system."""
    parts = groups(runs, "setting", "engine")
    drawings = [
        _chart(f"efficiency-over-time-{number}", f"{TITLE}: {setting}, {engine}", inside)
        for number, ((setting, engine), inside) in enumerate(parts.items(), 1)
    ]
    return drawings or [Drawing("efficiency-over-time", TITLE, missing="No run was selected.")]


def _chart(name: str, title: str, runs: Sequence[ReportRun]) -> Drawing:
    looks, names = style.Looks(run.system for run in runs), labels(runs)
    firsts = [own[0] for own in groups(runs, "system").values()]
    shown = [run for run in firsts if run.grants and all(g.speedup is not None for g in run.grants)]
    if not shown:
        return Drawing(
            name, title, missing="No selected run knows the speed of its jobs on their slots."
        )
    longest_s = max(grant.end_s for run in shown for grant in run.grants)
    seconds, unit = style.time_unit(longest_s)
    figure = style.new_figure(4.6)
    panels = figure.subplots(2, 1, sharex=True)
    for run in shown:
        for panel, heights in zip(panels, _heights(run), strict=True):
            times_s, values = _over_time(run, heights / run.num_slots, longest_s)
            look = looks.line(run.system)
            panel.step(times_s / seconds, values, where="post", label=names[run.system], **look)
    for panel, label in zip(
        panels, ("slots in use (fraction)", "efficiency (fraction)"), strict=True
    ):
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
    panels[0].set_xlim(0, longest_s / seconds)
    panels[-1].set_xlabel(f"time since the start of the run ({unit})")
    style.put_note(figure, shown)
    style.put_legend(figure)
    return Drawing(
        name=name,
        title=title,
        caption="Above: slots held by jobs over all slots. Below: the speed of each running job "
        "relative to its speed on one slot, summed over jobs and divided by the number "
        f"of slots; at 1 every slot works as if alone. First trials; means over {_BINS} "
        "stretches of time.",
        run_ids=[run.run_id for run in shown],
        figure=figure,
    )


def _heights(run: ReportRun) -> tuple[Floats, Floats]:
    """Return for every grant its slots, and its speed relative to one slot."""
    held = [len(grant.slots) for grant in run.grants]
    return np.array(held, np.float64), np.array([g.speedup for g in run.grants], np.float64)


def _over_time(run: ReportRun, heights: Floats, until_s: float) -> tuple[Floats, Floats]:
    """Return the sum of the heights of active grants over time, as means over equal stretches."""
    ends = [[grant.start_s for grant in run.grants], [grant.end_s for grant in run.grants]]
    moments, index = np.unique(np.concatenate(ends), return_inverse=True)
    change = np.zeros(len(moments))
    np.add.at(change, index, np.concatenate([heights, -heights]))
    times = np.concatenate([[0.0], moments, [until_s]])
    sums = np.concatenate([[0.0], np.cumsum(change), [0.0]])
    lasts = np.append(np.diff(times) > 0, True)
    return binned(times[lasts], sums[lasts], _BINS)


FIGURE = Declared(draw, tables=("grants",))
