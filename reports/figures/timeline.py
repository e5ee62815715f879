"""Gantt chart of a run: the slots that each job held over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from harness.results.records import GrantRecord
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups

TITLE = "Job timeline"
MAX_DRAWN = 12
MAX_BYTES = 600_000
_RASTER_FROM = 1500
_LABELS_UP_TO = 400
_TINTS = (0.72, 0.5, 0.62)
_DOWN: dict[str, Any] = {
    "facecolor": style.GRID, "edgecolor": "#BFC5CC", "hatch": "xxxx", "lw": 0,
}  # fmt: skip
"""Look of slots that were down."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one chart for the first trial of each setting, engine and system, live runs first."""
    firsts = [
        trials[0]
        for trials in groups(
            sorted(runs, key=lambda run: not run.is_live), "setting", "engine", "system"
        ).values()
    ]
    drawings = []
    looks = style.Looks(workload for run in firsts for workload in _workloads(run))
    for number, run in enumerate(firsts[:MAX_DRAWN], 1):
        title = f"{TITLE}: {run.label}, {run.engine} ({run.setting})"
        name = f"timeline-{number}"
        size = run.stored.table_bytes("grants")
        if not 0 < size <= MAX_BYTES:
            reason = (
                f"{run.run_id} has {size:,} bytes of records of held slots; charts are drawn for 1 "
                f"to {MAX_BYTES:,}."
            )
            drawings.append(Drawing(name, title, missing=reason))
            continue
        drawings.append(_chart(run, name, title, looks))
    if len(firsts) > MAX_DRAWN:
        left = ", ".join(run.run_id for run in firsts[MAX_DRAWN:][:6])
        reason = (
            f"{len(firsts) - MAX_DRAWN} more are not drawn (first: {left}); select fewer runs"
            " with --results DIR or study=NAME."
        )
        drawings.append(Drawing("timeline-more", f"{TITLE}: more runs", missing=reason))
    return drawings or [Drawing("timeline", TITLE, missing="No run was selected.")]


def _chart(run: ReportRun, name: str, title: str, looks: style.Looks) -> Drawing:
    longest = max(grant.end_s for grant in run.grants)
    seconds, unit = style.time_unit(longest)
    order = {job_id: index for index, job_id in enumerate(_by_arrival(run))}
    figure = style.new_figure(min(1.5 + 0.22 * run.num_slots, 5.2))
    axis = figure.subplots()
    boxes, colours = [], []
    raster = len(run.grants) > _RASTER_FROM
    for row in run.grants:
        start, end = row.start_s / seconds, row.end_s / seconds
        tint = _TINTS[order[row.job_id] % len(_TINTS)]
        colour = _mixed(looks.colour(run.workloads[row.job_id]), tint)
        for low, high in stretches(row.slots):
            boxes.append(_box(start, end, low, high))
            colours.append(colour)
    edge: dict[str, Any] = {"linewidths": 0.4 if not raster else 0.0, "edgecolors": style.PAPER}
    axis.add_collection(PolyCollection(boxes, facecolors=colours, rasterized=raster, **edge))
    _shade_outages(axis, run, seconds)
    _hatch_changes(axis, run, seconds, raster)
    axis.set_xlim(0, longest / seconds)
    axis.set_ylim(run.num_slots - 0.5, -0.5)
    if len(run.grants) <= _LABELS_UP_TO:
        _label_jobs(axis, run, seconds, longest / seconds)
    axis.set_xlabel(f"time since the start of the run ({unit})")
    axis.set_ylabel("slot (index)")
    axis.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.grid(visible=False, axis="y")
    handles = [
        Patch(facecolor=_mixed(looks.colour(workload), _TINTS[0]), label=workload)
        for workload in sorted(_workloads(run))
    ]
    handles.append(
        Patch(facecolor="none", edgecolor=style.INK, hatch="/////", lw=0, label="change")
    )
    if run.outages:
        handles.append(Patch(**_DOWN, label="slot down"))
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    style.put_note(figure, [run])
    return Drawing(
        name=name,
        title=title,
        caption="Each box is a job on its slots; the colour is the workload, hatching a change"
        " in progress (start, rescale, suspension), during which the slots are held."
        + (" Crossed grey: the slot was down." if run.outages else ""),
        run_ids=[run.run_id],
        figure=figure,
    )


def _workloads(run: ReportRun) -> set[str]:
    return set(run.workloads.values())


def _by_arrival(run: ReportRun) -> list[str]:
    return [job.job_id for job in sorted(run.jobs, key=attrgetter("arrival_s", "job_id"))]


def stretches(slots: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last slot of every stretch of neighbouring slots."""
    ordered = sorted(slots)
    for _, part in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]):
        members = [slot for _, slot in part]
        yield members[0], members[-1]


def _box(start: float, end: float, low: int, high: int) -> list[tuple[float, float]]:
    top, bottom = low - 0.46, high + 0.46
    return [(start, top), (end, top), (end, bottom), (start, bottom)]


def _mixed(colour: str, share: float) -> tuple[float, float, float]:
    """Return a colour thinned with white."""
    red, green, blue = (1 - share * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def _hatch_changes(axis: Axes, run: ReportRun, seconds: float, raster: bool) -> None:
    boxes = []
    for row in run.changes:
        if row.ended_s is not None and row.ended_s > row.requested_s:
            held = {*row.from_slots, *row.to_slots}
            for low, high in stretches(sorted(held)):
                boxes.append(_box(row.requested_s / seconds, row.ended_s / seconds, low, high))
    axis.add_collection(
        PolyCollection(
            boxes, facecolors="none", edgecolors=style.INK, hatch="/////", lw=0, rasterized=raster
        )
    )


def _shade_outages(axis: Axes, run: ReportRun, seconds: float) -> None:
    down: dict[tuple[float, float], list[int]] = {}
    for row in run.outages:
        down.setdefault((row.start_s / seconds, row.end_s / seconds), []).append(row.slot)
    boxes = [
        _box(start, end, low, high)
        for (start, end), slots in down.items()
        for low, high in stretches(slots)
    ]
    axis.add_collection(PolyCollection(boxes, rasterized=len(boxes) > _RASTER_FROM, **_DOWN))


def _label_jobs(axis: Axes, run: ReportRun, seconds: float, span: float) -> None:
    """Write each job's id in the middle of its widest box, if there is room."""
    widest: dict[str, GrantRecord] = {}
    for grant in run.grants:
        best = widest.get(grant.job_id)
        if best is None or grant.end_s - grant.start_s > best.end_s - best.start_s:
            widest[grant.job_id] = grant
    for job_id, grant in widest.items():
        text = style.shorten(job_id, 14)
        if (grant.end_s - grant.start_s) / seconds > span * 0.011 * (len(text) + 1):
            low, high = max(stretches(grant.slots), key=lambda pair: pair[1] - pair[0])
            middle = (grant.start_s + grant.end_s) / 2 / seconds
            place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL_PT}
            axis.text(middle, (low + high) / 2, text, clip_on=True, **place)


FIGURE = Declared(draw, general_place=3)
