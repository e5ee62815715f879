"""Time of a step for each worker, compared with stock DDP (EasyScale, figures 11 and 13)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.step_speed import Speed, speeds
from reports.runs.selection import ReportRun

TITLE = "Run time compared with stock DistributedDataParallel"
BASELINE = "static"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: for each program the systems' times over the baseline's, one dot per
    trial."""
    found = ratios(speeds(runs))
    if not found:
        reason = "No program of the selection was trained alone under static and another backend."
        return [Drawing("normalized_run_time", TITLE, missing=reason)]
    return [_chart(found, [run for run in runs if run.is_live])]


def ratios(found: Sequence[Speed]) -> dict[tuple[str, str], list[float]]:
    """Return the samples per second of a slot under the baseline over those under the system.

    The ratios are by workload and system, one for every trial that both have.
    """
    stock = {_same(speed): speed.per_slot for speed in found if speed.backend == BASELINE}
    normalized: dict[tuple[str, str], list[float]] = {}
    for speed in found:
        base = stock.get(_same(speed))
        if base is not None and speed.backend != BASELINE:
            key = (speed.workload, speed.name)
            normalized.setdefault(key, []).append(base / speed.per_slot)
    return normalized


def _same(speed: Speed) -> tuple[object, ...]:
    """Return the properties that two compared runs share."""
    return (speed.workload, speed.logical_workers, speed.trial)


def _chart(found: dict[tuple[str, str], list[float]], runs: Sequence[ReportRun]) -> Drawing:
    workloads = sorted({workload for workload, _ in found})
    systems = sorted({system for _, system in found})
    looks = style.Looks(systems)
    figure = style.new_figure(3.0)
    axis = figure.subplots()
    width = 0.8 / len(systems)
    for number, system in enumerate(systems):
        places = np.arange(len(workloads)) + (number - (len(systems) - 1) / 2) * width
        values = [found.get((workload, system), []) for workload in workloads]
        middles = [median(own) if own else np.nan for own in values]
        axis.bar(places, middles, 0.9 * width, color=looks.colour(system), alpha=0.75, label=system)
        for place, own in zip(places, values, strict=True):
            axis.plot([place] * len(own), own, ".", color=style.INK, markersize=3)
    axis.axhline(1.0, color=style.MUTED, linewidth=0.8)
    axis.set_xticks(range(len(workloads)), workloads, rotation=0 if len(workloads) < 6 else 25)
    axis.set_ylabel("run time over stock DDP's (ratio)")
    axis.set_ylim(bottom=0)
    style.put_legend(figure)
    style.put_count_note(figure, [len(values) for values in found.values()], runs)
    rows = [
        [f"{workload}: {system}", str(len(values)), f"{median(values):.3f}",
         f"{min(values):.3f} to {max(values):.3f}"]
        for (workload, system), values in sorted(found.items())
    ]  # fmt: skip
    return Drawing(
        name="normalized_run_time-1",
        title=TITLE,
        caption="Samples per second of a slot under the static backend, over those under the "
        "system: at 1 both are equally fast, at 2 the system takes twice as long for the same "
        "samples. Bars: medians; dots: trials. After EasyScale (Li et al., SC '23), figures 11 "
        "and 13.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(["program: system", "n", "run time (ratio)", "least to most"], rows),
    )


FIGURE = Declared(draw)
