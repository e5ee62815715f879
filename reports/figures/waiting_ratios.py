"""Waiting time of jobs over their running time, by their size (EDL, figure 3b)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.cluster_numbers import SIZE_CLASSES, waiting_ratios
from reports.runs.selection import ReportRun, groups

TITLE = "Waiting time over running time"
_NAMES = ("small", "medium", "large", "very large")
_MARKS = (1.0, 10.0)
"""Ratios above which the table has the shares of jobs."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for the first trial of every system: a cumulative curve per size class."""
    firsts = [own[0] for own in groups(runs, "setting", "engine", "system").values()]
    drawings = [_chart(f"waiting-ratios-{at}", run) for at, run in enumerate(firsts, 1)]
    return drawings or [Drawing("waiting-ratios", TITLE, missing="No run was selected.")]


def _chart(name: str, run: ReportRun) -> Drawing:
    title = f"{TITLE}: {run.label}"
    classes = waiting_ratios(run)
    if not all(own.size for own in classes):
        return Drawing(name, title, missing="Too few jobs finished for four classes of size.")
    figure = style.new_figure(3.2)
    axis = figure.subplots()
    rows = []
    looks = style.Looks(_NAMES)
    for size, own, (low, high) in zip(_NAMES, classes, pairwise(SIZE_CLASSES), strict=True):
        ratios = np.sort(own)
        label = f"{size} ({low:.0%} to {high:.0%} of the jobs by slots × running time)"
        shares = np.arange(1, ratios.size + 1) / ratios.size
        kept = style.thinned(ratios)
        axis.step(ratios[kept], shares[kept], where="post", label=label, **looks.line(size))
        rows.append([size, f"{ratios.size:,}", *(f"{(own > mark).mean():.1%}" for mark in _MARKS)])
    axis.set_xscale("symlog", linthresh=0.01)
    axis.xaxis.set_major_formatter("{x:,g}")
    axis.set_xlim(left=0)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("waiting time / running time (logarithmic; linear below 0.01)")
    axis.set_ylabel("share of the class (fraction)")
    style.put_note(figure, [run])
    style.put_legend(figure)
    return Drawing(
        name=name,
        title=title,
        caption="Share of the jobs of a class whose ratio of waiting time to running time is at "
        "most the given value, in the first trial; jobs of a curve further right have waited "
        "longer. Jobs are in classes by slots times running time.",
        run_ids=[run.run_id],
        figure=figure,
        table=Table(["class", "jobs", *(f"waited > {mark:g}×" for mark in _MARKS)], rows),
    )


FIGURE = Declared(draw, tables=("jobs",))
