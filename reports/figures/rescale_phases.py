"""Phases of a rescale's time, for systems next to each other (EDL, figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Patch

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.rescales import RescaleCell, RescaleTrial, by_change, measure
from reports.runs.selection import ReportRun

TITLE = "Phases of a rescale"
_HATCHES = ("", "////", "....")


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each change of size: stacked phases, a bar per workload and system."""
    measured = measure(runs)
    cells = {
        cell: timed
        for cell, trials in measured.by_cell().items()
        if (timed := [trial for trial in trials if trial.change.phases_s])
    }
    drawings = [
        _chart(f"rescale-phases-{number}", own, measured.runs)
        for number, own in enumerate(by_change(cells), 1)
    ]
    reason = "No live run of the selection has rescales with timed phases."
    return drawings or [Drawing("rescale-phases", TITLE, missing=reason)]


def phase_medians(trials: Sequence[RescaleTrial]) -> dict[str, float]:
    """Return the median of every phase in seconds, in the order in which phases were recorded.

    A change that lacks a phase counts as 0.
    """
    names = dict.fromkeys(name for trial in trials for name in trial.change.phases_s)
    return {
        name: float(np.median([trial.change.phases_s.get(name, 0.0) for trial in trials]))
        for name in names
    }


def _chart(
    name: str, cells: dict[RescaleCell, list[RescaleTrial]], runs: Sequence[ReportRun]
) -> Drawing:
    medians = {cell: phase_medians(trials) for cell, trials in cells.items()}
    phases = list(dict.fromkeys(phase for found in medians.values() for phase in found))
    figure = style.new_figure(max(2.4, 1.7 + 0.27 * len(cells)))
    axis = figure.subplots()
    places = np.arange(len(cells))
    left = np.zeros(len(cells))
    looks: dict[str, dict[str, Any]] = {
        phase: {
            "facecolor": style.PALETTE[index % len(style.PALETTE)],
            "hatch": _HATCHES[index // len(style.PALETTE) % len(_HATCHES)],
        }
        for index, phase in enumerate(phases)
    }
    for row, found in enumerate(medians.values()):  # each system has its own order of phases
        for phase, width in found.items():
            axis.barh(
                row, width, left=left[row], height=0.66, edgecolor=style.PAPER, linewidth=0.5,
                **looks[phase],
            )  # fmt: skip
            left[row] += width
    handles = [Patch(label=phase, edgecolor=style.PAPER, **looks[phase]) for phase in phases]
    for place, trials, end in zip(places, cells.values(), left, strict=True):
        stops = [t.stopping_time_s for t in trials if t.stopping_time_s is not None]
        text = f"sum {_short(end)}, n = {len(trials)}"
        if stops:
            text = f"stops {_short(float(np.median(stops)))}; {text}"
        axis.annotate(text, (end, place), (5, 0), textcoords="offset points", va="center",
                      fontsize=style.SMALL_PT)  # fmt: skip
    axis.set_yticks(places, [f"{cell.workload}: {cell.system}" for cell in cells])
    axis.invert_yaxis()
    axis.set_xlim(0, float(left.max()) * 1.5 or 1.0)
    axis.set_xlabel("duration of the phases (s, medians, added up)")
    axis.set_ylabel("system (name)")
    axis.grid(visible=False, axis="y")
    figure.legend(
        handles=handles, loc="outside upper left", ncols=min(7, len(phases)), columnspacing=1.2
    )
    ids = {trial.run_id for trials in cells.values() for trial in trials}
    own_runs = [run for run in runs if run.run_id in ids]
    style.put_count_note(figure, [len(trials) for trials in cells.values()], own_runs)
    rows = [
        [
            f"{cell.workload}: {cell.system}",
            str(len(trials)),
            *(f"{medians[cell][phase]:.4f}" if phase in medians[cell] else "" for phase in phases),
        ]
        for cell, trials in cells.items()
    ]
    return Drawing(
        name=name,
        title=f"{TITLE}: {next(iter(cells)).change}",
        caption="Medians of every phase, stacked in the order in which they are recorded. Under "
        "stop-resume the job is stopped during all phases; under stop-free it trains "
        "during most of them, and the text next to a bar says how long the old workers "
        "really stopped. A phase is as long as it took the slowest of its workers, and "
        "phases can overlap: under warm-restart the switch, for which the old workers "
        "stop, includes the newcomers' phases.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=Table(["program: system", "n", *(f"{phase} s" for phase in phases)], rows),
    )


def _short(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


FIGURE = Declared(draw)
