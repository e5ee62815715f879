"""Phases of a change's time, for each workload and change of size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.results.records import ChangeRecord
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups

TITLE = "Phases of a change"
MAX_ROWS = 24
MAX_BYTES = 600_000
"""Size of the largest table of changes that is read, bytes. Runs with larger tables are simulations
of whole clusters."""
_FIRST = ("save", "stop", "spawn", "import", "build", "group", "layout", "load", "first_step")


@dataclass(frozen=True)
class Row:
    """Changes of one kind, of one workload, from one size to another."""

    label: str
    medians: Mapping[str, float]
    total: float
    low: float
    high: float
    count: int


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one chart for each setting, engine and backend: stacked medians of every phase.

    A line has the quartiles of the sum.
    """
    drawings: list[Drawing] = []
    parts: dict[tuple[str, str, str], list[ReportRun]] = {}
    for (setting, engine), inside in groups(runs, "setting", "engine").items():
        for run in (run for run in inside if run.stored.table_bytes("changes") <= MAX_BYTES):
            backend = run.system.split(" / ", 1)[-1]
            parts.setdefault((setting, engine, backend), []).append(run)
    for (setting, engine, backend), inside in parts.items():
        rows = _rows(inside)
        if rows:
            title = f"{TITLE}: {backend}, {engine} ({setting})"
            drawings.append(_chart(f"stop-resume-phases-{len(drawings) + 1}", title, rows, inside))
    if drawings:
        return drawings
    reason = "No change of the selected runs has timed phases, or there are too many to read."
    return [Drawing("phases", TITLE, missing=reason)]


def _rows(runs: Sequence[ReportRun]) -> list[Row]:
    by_workload: dict[str, list[ChangeRecord]] = {}
    for run in runs:
        for change in run.changes:
            if change.job_id in run.workloads:
                by_workload.setdefault(run.workloads[change.job_id], []).append(change)
    return summarise(by_workload.items())


def summarise(changes: Iterable[tuple[str, Sequence[ChangeRecord]]]) -> list[Row]:
    """Return one row for each workload, kind and pair of sizes, from completed and timed
    changes."""
    found: dict[tuple[str, str, int, int], list[Mapping[str, float]]] = {}
    for workload, members in changes:
        for change in members:
            if change.outcome == "done" and change.phases_s:
                sizes = len(change.from_slots), len(change.to_slots)
                found.setdefault((workload, change.kind, *sizes), []).append(change.phases_s)
    rows = []
    for (workload, kind, before, after), phases in sorted(found.items()):
        totals = np.array([sum(one.values()) for one in phases])
        names = sorted({name for one in phases for name in one}, key=_phase_order)
        rows.append(
            Row(
                label=f"{workload} {kind} {before}→{after}",
                medians={n: float(np.median([one.get(n, 0.0) for one in phases])) for n in names},
                total=float(np.median(totals)),
                low=float(np.percentile(totals, 25)),
                high=float(np.percentile(totals, 75)),
                count=len(phases),
            )
        )
    return rows


def _phase_order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _chart(name: str, title: str, rows: Sequence[Row], runs: Sequence[ReportRun]) -> Drawing:
    shown = sorted(rows, key=lambda row: -row.count)[:MAX_ROWS]
    shown.sort(key=lambda row: row.label)
    phases = sorted({phase for row in shown for phase in row.medians}, key=_phase_order)
    ranks = [*_FIRST, *(phase for phase in phases if phase not in _FIRST)]
    colours = {phase: style.PALETTE[ranks.index(phase) % len(style.PALETTE)] for phase in phases}
    figure = style.new_figure(1.4 + 0.27 * len(shown))
    axis = figure.subplots()
    places = np.arange(len(shown))
    left = np.zeros(len(shown))
    for phase in phases:
        width = np.array([row.medians.get(phase, 0.0) for row in shown])
        axis.barh(
            places, width, left=left, height=0.66, color=colours[phase], label=phase,
            edgecolor=style.PAPER, linewidth=0.5,
        )  # fmt: skip
        left += width
    for place, row, end in zip(places, shown, left, strict=True):
        axis.plot([row.low, row.high], [place, place], color=style.INK, linewidth=1.1)
        axis.plot([row.low, row.high], [place, place], "|", color=style.INK, markersize=5)
        text = f"{row.total:.3g} s, n = {row.count}"
        axis.annotate(
            text, (max(end, row.high), place), (5, 0), textcoords="offset points", va="center",
            fontsize=style.SMALL_PT,
        )  # fmt: skip
    axis.set_yticks(places, [row.label for row in shown])
    axis.invert_yaxis()
    axis.set_xlim(0, max(max(row.high for row in shown), float(left.max())) * 1.22 or 1.0)
    axis.set_xlabel("duration of the change (s)")
    axis.set_ylabel("change (slots before → after)")
    axis.grid(visible=False, axis="y")
    figure.legend(loc="outside upper left", ncols=len(phases), columnspacing=1.2)
    style.put_note(figure, runs)
    header = ["change", "n", "median s", "quartiles s", *phases]
    table = Table(
        header,
        [
            [
                row.label, str(row.count), f"{row.total:.3f}", f"{row.low:.3f} to {row.high:.3f}",
                *(f"{row.medians[p]:.3f}" if p in row.medians else "" for p in phases),
            ]
            for row in sorted(rows, key=lambda row: row.label)
        ],
    )  # fmt: skip
    source = "" if runs[0].is_live else " These durations are taken from the profile, not measured."
    left_out = len(rows) - len(shown)
    more = f" The {left_out} rarest kinds are in the table only." if left_out else ""
    return Drawing(
        name=name,
        title=title,
        caption="Bars stack the median of every phase; the line spans the quartiles of the whole"
        f" change.{source}{more}",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=table,
    )


FIGURE = Declared(draw, general_place=4)
