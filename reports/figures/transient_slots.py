"""Gain of a job that uses slots that come and go (EDL, section 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.transient import TransientPoint, break_even_s, steady_speeds, transient_points
from reports.runs.selection import ReportRun

TITLE = "Transient slots"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: gain over the baseline against the length of the window."""
    live = [run for run in runs if run.is_live and len(run.jobs) == 1]
    points = transient_points(live)
    steady = steady_speeds(live)
    workloads = sorted({p.workload for p in points if p.workload in steady})
    if not workloads:
        reason = (
            "No live run of the selection has a script with every_s and a baseline to "
            "compare it with."
        )
        return [Drawing("transient-slots", TITLE, missing=reason)]
    return [_chart(workloads, points, steady, live)]


def _chart(
    workloads: Sequence[str],
    points: Sequence[TransientPoint],
    steady: Mapping[str, Mapping[int, float]],
    runs: Sequence[ReportRun],
) -> Drawing:
    systems = sorted({point.system for point in points})
    looks = style.Looks(systems)
    figure = style.new_figure(3.2)
    axes = figure.subplots(1, len(workloads), sharey=True, squeeze=False)[0]
    rows, counts = [], []
    for axis, workload in zip(axes, workloads, strict=True):
        base, both = steady[workload][1], steady[workload][2]
        ideal = 50 * (both / base - 1)
        first = axis is axes[0]
        axis.axhline(0, color=style.INK, linewidth=0.9, label="baseline" if first else None)
        axis.axhline(ideal, color=style.MUTED, linewidth=1.2, linestyle=style.DASHES[1],
                     label="ideal: scaling at no cost" if first else None)  # fmt: skip
        for system in systems:
            own = [p for p in points if (p.workload, p.system) == (workload, system)]
            lengths = sorted({point.window_s for point in own})
            gains = {
                length: [100 * (p.samples_per_s / base - 1) for p in own if p.window_s == length]
                for length in lengths
            }
            if not lengths:
                continue
            middle = [float(np.median(gains[length])) for length in lengths]
            label = system if first else None
            axis.plot(lengths, middle, marker="o", markersize=4, label=label, **looks.line(system))
            for length in lengths:
                axis.plot([length] * len(gains[length]), gains[length], "o", markersize=2,
                          alpha=0.5, color=looks.colour(system))  # fmt: skip
                counts.append(len(gains[length]))
            stops = [point.stop_s for point in own if point.stop_s is not None]
            even = "never"
            if stops and both > base:
                even = f"{break_even_s(median(stops), both / base - 1):.3g}"
            cells = [
                f"{length:g} s: {gain:+.1f}" for length, gain in zip(lengths, middle, strict=True)
            ]
            rows.append([f"{workload}: {system}", str(len(own)), f"{base:.0f}", f"{both:.0f}",
                         f"{ideal:+.1f}", "; ".join(cells), even])  # fmt: skip
        axis.set_title(workload)
        axis.set_xscale("log")
        axis.set_xlabel("length of the window; the second slot is there in its second half (s)")
        axis.set_ylabel("additional samples compared with one slot (%)")
        axis.label_outer()
    for axis in axes:
        style.plain_log_ticks(axis.xaxis)
    figure.legend(loc="outside upper left", ncols=4)
    style.put_count_note(figure, counts, runs)
    return Drawing(
        name="transient-slots-1",
        title=TITLE,
        caption="Throughput over whole windows except the first, compared with a job that does "
                "not use the second slot. Below the line, the job would have been faster without "
                "the second slot. Break-even in the table: how long the slot must stay to make "
                "up for two stops of the median length, by EDL's formula.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            ["program: system", "runs", "1 slot, samples/s", "2 slots", "ideal %", "gain %",
             "break-even s"],
            rows,
        ),
    )  # fmt: skip


FIGURE = Declared(draw)
