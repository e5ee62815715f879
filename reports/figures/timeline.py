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
_TITLE_LETTERS, _MOST_KEYS = 95, 8
"""Letters that fit into the title of a chart, and entries that fit into a row of the legend."""
_TINTS = (0.72, 0.5, 0.62)
_DOWN: dict[str, Any] = {
    "facecolor": style.GRID, "edgecolor": "#BFC5CC", "hatch": "xxxx", "lw": 0,
}  # fmt: skip
"""Look of slots that were down."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting: a chart for the first trial of each engine and system,
    live runs first, on one axis of time."""
    live_first = sorted(runs, key=lambda run: not run.is_live)
    looks = style.Looks(w for run in live_first if _is_small(run) for w in _workloads(run))
    drawings = []
    for number, ((setting,), inside) in enumerate(groups(live_first, "setting").items(), 1):
        firsts = [trials[0] for trials in groups(inside, "engine", "system").values()]
        fitting = [run for run in firsts if _is_small(run)]
        title, name = f"{TITLE}s: {setting}", f"timeline-{number}"
        left_out = [run for run in firsts if run not in fitting[:MAX_DRAWN]]
        if fitting:
            drawings.append(_charts(fitting[:MAX_DRAWN], name, title, looks, len(left_out)))
        else:
            sizes = [run.stored.table_bytes("grants") for run in left_out]
            size = f"{min(sizes):,}" + (f" to {max(sizes):,}" if len(sizes) > 1 else "")
            reason = (
                f"{left_out[0].run_id} and others of {setting} have {size} bytes of records of held"
                f" slots; charts are drawn for 1 to {MAX_BYTES:,}."
            )
            drawings.append(Drawing(name, title, missing=reason))
    return drawings or [Drawing("timeline", TITLE, missing="No run was selected.")]


def _is_small(run: ReportRun) -> bool:
    return 0 < run.stored.table_bytes("grants") <= MAX_BYTES


def _charts(
    runs: Sequence[ReportRun], name: str, title: str, looks: style.Looks, num_left_out: int
) -> Drawing:
    longest = max(grant.end_s for run in runs for grant in run.grants)
    seconds, unit = style.time_unit(longest)
    heights = [min(0.35 + 0.2 * run.num_slots, 4.0 if len(runs) == 1 else 2.4) for run in runs]
    figure = style.new_figure(0.9 + sum(height + 0.3 for height in heights))
    axes = figure.subplots(
        len(runs), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    for axis, run in zip(axes, runs, strict=True):
        _chart(axis, run, looks, seconds, longest / seconds)
    axes[-1].set_xlabel(f"time since the start of the run ({unit})")
    handles = [
        Patch(facecolor=_mixed(looks.colour(workload), _TINTS[0]), label=workload)
        for workload in sorted({w for run in runs for w in _workloads(run)})
    ]
    handles.append(
        Patch(facecolor="none", edgecolor=style.INK, hatch="/////", lw=0, label="change")
    )
    has_outages = any(run.outages for run in runs)
    if has_outages:
        handles.append(Patch(**_DOWN, label="slot down"))
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), _MOST_KEYS))
    style.put_note(figure, runs)
    more = f" {num_left_out} more are not drawn." if num_left_out else ""
    return Drawing(
        name=name,
        title=title,
        caption="Each box is a job on its slots; the colour is the workload, hatching a change"
        " in progress (start, rescale, suspension), during which the slots are held. All charts"
        " have one axis of time."
        + (" Crossed grey: the slot was down." if has_outages else "")
        + more,
        run_ids=[run.run_id for run in runs],
        figure=figure,
    )


def _chart(axis: Axes, run: ReportRun, looks: style.Looks, seconds: float, longest: float) -> None:
    """Draw the slots that the jobs of one run held, on an axis that ends at ``longest``."""
    order = {job_id: index for index, job_id in enumerate(_by_arrival(run))}
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
    axis.set_xlim(0, longest)
    axis.set_ylim(run.num_slots - 0.5, -0.5)
    if len(run.grants) <= _LABELS_UP_TO:
        _label_jobs(axis, run, seconds, longest)
    axis.set_title(style.shorten(f"{run.label}, {run.engine}", _TITLE_LETTERS))
    axis.set_ylabel("slot (index)")
    axis.yaxis.set_major_locator(MaxNLocator(min(8, run.num_slots), integer=True))
    axis.grid(visible=False, axis="y")


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


FIGURE = Declared(draw, general_place=3, carries_answer=False)
