"""Time to measure a job's whole throughput curve by successive scale-in (EDL, section 3,
``profile()``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.metrics.statistics import percentile_interval, ratio_of_medians
from harness.profiles.evaluate import step_times
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.profiling import Profile, profiles
from reports.measures.rescales import system_names
from reports.runs.selection import ReportRun

TITLE = "Time of a profile by successive scale-in"
BASELINE = "stop-free"


@dataclass(frozen=True, order=True)
class ProfilingCell:
    """Properties that profiles share."""

    largest: int
    workload: str
    system: str


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each largest size: a bar for each workload and system."""
    own = [run for run in runs if run.is_live and len(run.jobs) == 1]
    names = system_names(own)
    found: dict[ProfilingCell, list[Profile]] = {}
    used: dict[ProfilingCell, list[ReportRun]] = {}
    for run in own:
        for profile in profiles(run.changes, run.dilation):
            cell = ProfilingCell(profile.largest, run.jobs[0].workload, names[run.run_id])
            found.setdefault(cell, []).append(profile)
            if run not in used.setdefault(cell, []):
                used[cell].append(run)
    drawings = []
    for number, largest in enumerate(sorted({cell.largest for cell in found}, reverse=True), 1):
        cells = {cell: found[cell] for cell in sorted(found) if cell.largest == largest}
        drawings.append(_chart(number, cells, used))
    reason = "No live run of the selection scaled in through every size and out again."
    return drawings or [Drawing("profiling-time", TITLE, missing=reason)]


def _chart(
    number: int,
    cells: dict[ProfilingCell, list[Profile]],
    used: dict[ProfilingCell, list[ReportRun]],
) -> Drawing:
    figure = style.new_figure(1.5 + 0.27 * len(cells))
    axis = figure.subplots()
    places = np.arange(len(cells), dtype=np.float64)
    workloads = sorted({cell.workload for cell in cells})
    places += 0.5 * np.array([workloads.index(cell.workload) for cell in cells])
    training = np.array([np.median([p.training_s for p in own]) for own in cells.values()])
    stopping = np.array([np.median([p.stopping_s for p in own]) for own in cells.values()])
    looks: dict[str, Any] = {"edgecolor": style.PAPER, "linewidth": 0.5, "height": 0.7}
    axis.barh(places, training, color=style.PALETTE[0], label="training", **looks)
    axis.barh(places, stopping, left=training, color=style.PALETTE[1], label="stopped", **looks)
    for place, (cell, own), end in zip(places, cells.items(), training + stopping, strict=True):
        times = _times(cell, cells)
        text = f"{np.median([p.total_s for p in own]):.3g} s{times}, n = {len(own)}"
        axis.annotate(text, (end, place), (5, 0), textcoords="offset points", va="center",
                      fontsize=style.SMALL_PT)  # fmt: skip
    axis.set_yticks(places, [f"{cell.workload}: {cell.system}" for cell in cells])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.35 * float((training + stopping).max()))
    axis.set_xlabel("time until the throughput is known at every size (s, medians)")
    axis.set_ylabel("program: system (name)")
    axis.grid(visible=False, axis="y")
    figure.legend(loc="outside upper left", ncols=2)
    runs = [run for cell in cells for run in used[cell]]
    style.put_count_note(figure, [len(own) for own in cells.values()], runs)
    largest = next(iter(cells)).largest
    sizes = list(range(largest, 0, -1))
    return Drawing(
        name=f"profiling-time-{number}",
        title=f"{TITLE}: {' → '.join(map(str, sizes))} slots",
        caption="Time from the first step at the largest size to the last measured step on one "
                "slot. Stopped: sum of the stopping times of the changes in between; the rest is "
                f"training, also while a change is prepared. The factor is relative to {BASELINE} "
                "of the same program. Throughput in the table is over all steps at a size except "
                "the first three.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            [
                "program: system", "n", "total p50 s", "95% interval", "training p50 s",
                "stopped p50 s", f"over {BASELINE}", "95% interval",
                *(f"samples/s on {size}" for size in sizes),
            ],
            [_row(cell, cells, used[cell], sizes) for cell in cells],
        ),
    )  # fmt: skip


def _baseline(
    cell: ProfilingCell, cells: dict[ProfilingCell, list[Profile]]
) -> list[Profile] | None:
    """Return the baseline's profiles of the program; None unless it is exactly one other cell."""
    beside = [c for c in cells if c.workload == cell.workload and c.system.startswith(BASELINE)]
    return cells[beside[0]] if len(beside) == 1 and beside[0] != cell else None


def _times(cell: ProfilingCell, cells: dict[ProfilingCell, list[Profile]]) -> str:
    base = _baseline(cell, cells)
    if base is None:
        return ""
    ratio = ratio_of_medians([p.total_s for p in cells[cell]], [p.total_s for p in base])
    return f" ({ratio.value:.3g} x)"


def _row(
    cell: ProfilingCell,
    cells: dict[ProfilingCell, list[Profile]],
    runs: Sequence[ReportRun],
    sizes: Sequence[int],
) -> list[str]:
    own = cells[cell]
    total = percentile_interval([p.total_s for p in own])
    row = [
        f"{cell.workload}: {cell.system}", str(len(own)), f"{total.value:.3f}",
        interval_text(total, ".3f"), f"{np.median([p.training_s for p in own]):.3f}",
        f"{np.median([p.stopping_s for p in own]):.3f}",
    ]  # fmt: skip
    base = _baseline(cell, cells)
    if base is None:
        row += ["", ""]
    else:
        ratio = ratio_of_medians([p.total_s for p in own], [p.total_s for p in base])
        row += [f"{ratio.value:.3g}", interval_text(ratio, ".3g")]
    speeds: dict[int, list[float]] = {}
    for run in runs:
        batch = run.jobs[0].global_batch
        for size, step_s in step_times(run.stored.rows("steps")).items():
            speeds.setdefault(size, []).append(batch / step_s)
    return [*row, *(f"{np.median(speeds[s]):.0f}" if s in speeds else "" for s in sizes)]


FIGURE = Declared(draw)
