"""Slots in use over time, one panel per scheduler and backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from harness.metrics.columns import Floats
from harness.results.records import GrantRecord, OutageRecord
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups

TITLE = "Slots in use over time"
MAX_PANELS = 10
_CAPACITY = "slots of the cluster that were up"
_BINS = 1500
"""Largest number of steps of a curve; longer curves are drawn as means over that many stretches."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and engine, of the first trial of every system."""
    looks = style.Looks(run.system for run in runs)
    drawings = []
    parts = groups(runs, "setting", "engine")
    for number, ((setting, engine), inside) in enumerate(parts.items(), 1):
        title = f"{TITLE}: {setting}, {engine}"
        firsts = [trials[0] for trials in groups(inside, "system").values()]
        shown = [run for run in firsts if len(run.grants)][:MAX_PANELS]
        if not shown:
            reason = f"No job of {setting} was given slots under engine {engine}."
            drawings.append(Drawing(f"slots-in-use-{number}", title, missing=reason))
            continue
        longest = max(_end_s(run) for run in shown)
        seconds, unit = style.time_unit(longest)
        figure = style.new_figure(0.9 + 1.15 * len(shown))
        axes = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axis, run in zip(axes, shown, strict=True):
            times, used = binned(*usage(run.grants))
            colour = looks.colour(run.system)
            axis.fill_between(times / seconds, used, step="post", color=colour, alpha=0.28, lw=0)
            axis.step(times / seconds, used, where="post", color=colour, linewidth=1.1)
            moments, up = binned(*capacity(run.outages, run.num_slots, _end_s(run)))
            line: dict[str, Any] = {"color": style.MUTED, "lw": 0.9, "linestyle": (0, (4, 2))}
            axis.step(moments / seconds, up, where="post", label=_CAPACITY, **line)
            style.put_title(axis, run.label, _mean(run))
            axis.set_ylim(0, run.num_slots * 1.12)
            axis.set_xlim(0, longest / seconds)
            axis.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            axis.set_ylabel("slots (count)")
        axes[-1].set_xlabel(f"time since the start of the run ({unit})")
        if any(run.outages for run in shown):
            style.put_legend(figure)
        style.put_note(figure, shown)
        left_out = len(firsts) - len(shown)
        more = f" {left_out} more systems are not drawn." if left_out else ""
        drawings.append(
            Drawing(
                name=f"slots-in-use-{number}",
                title=title,
                caption="Slots held by jobs, of the first trial; the dashed line shows the slots "
                "of the cluster that were up. A job also holds its slots while it starts or "
                f"rescales. Curves of more than {_BINS:,} steps are means over as many equal "
                f"stretches of time.{more}",
                run_ids=[run.run_id for run in shown],
                figure=figure,
            )
        )
    return drawings or [Drawing("slots", TITLE, missing="No run was selected.")]


def _mean(run: ReportRun) -> str:
    """Return a text with the mean of slots in use, over all slots and over slots that were up."""
    mean = run.metrics.get("slot_utilization_mean")
    if mean is None:
        return ""
    available = run.metrics.get("slot_availability")
    text = f"mean {mean:.0%} of {run.num_slots}"
    return f"{text}, {mean / available:.0%} of those up" if available else text


def binned(times: Floats, used: Floats, count: int = _BINS) -> tuple[Floats, Floats]:
    """Return the curve; if it has more than ``count`` steps, its means over equal stretches."""
    if len(times) <= count:
        return times, used
    area = np.concatenate([[0.0], np.cumsum(used[:-1] * np.diff(times))])
    edges = np.linspace(times[0], times[-1], count + 1)
    means = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return edges, np.concatenate([means, used[-1:]])


def _end_s(run: ReportRun) -> float:
    return max(grant.end_s for grant in run.grants)


def usage(grants: Sequence[GrantRecord]) -> tuple[Floats, Floats]:
    """Return the times at which the number of held slots changes, and the number from then on."""
    return _sum(grants, np.array([len(grant.slots) for grant in grants], dtype=np.float64))


def capacity(
    outages: Sequence[OutageRecord], num_slots: int, end_s: float
) -> tuple[Floats, Floats]:
    """Return the times at which the number of slots that are up changes, and the number then.

    The times go from 0 to ``end_s``.
    """
    moments, down = _sum(outages, np.ones(len(outages)))
    inside = moments < end_s
    moments, down = moments[inside], down[inside]
    times = np.concatenate([[0.0], moments, [end_s]])
    last = down[-1] if len(down) else 0.0
    return times, num_slots - np.concatenate([[0.0], down, [last]])


def _sum(periods: Sequence[GrantRecord | OutageRecord], width: Floats) -> tuple[Floats, Floats]:
    """Return the times at which the summed widths of current periods change, and the sums."""
    ends = [[period.start_s for period in periods], [period.end_s for period in periods]]
    moments, index = np.unique(np.concatenate(ends), return_inverse=True)
    total = np.zeros(len(moments))
    np.add.at(total, index, np.concatenate([width, -width]))
    return moments, np.cumsum(total)


FIGURE = Declared(draw, tables=("grants", "outages"), general_place=2, carries_answer=False)
