"""Pause and loss against the size of the state that has to be moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from harness.bench.bandwidth import NAME, RECORD
from harness.files.bounded_file import parse_json, read_text
from harness.machine.manifest import hardware_slug
from harness.metrics.statistics import percentile_interval
from harness.results.store import RESULT_DIRS
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.rescales import (
    BASELINE,
    SHARE,
    RescaleTrial,
    measure,
    net_losses,
    system_names,
)
from reports.measures.state_size import STATE_BYTES, state_bytes
from reports.runs.selection import ReportRun

TITLE = "Pause against the size of the state"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each change of size."""
    sized = [run for run in runs if state_bytes(run) is not None]
    measured = measure(sized)
    names = system_names(sized)
    sizes = {run.run_id: state_bytes(run) or 0.0 for run in sized}
    points: dict[tuple[str, int, int], dict[tuple[str, float], list[RescaleTrial]]] = {}
    for trial in measured.trials:
        cell = trial.cell
        key = (cell.kind, cell.before, cell.after)
        place = (names[trial.run_id], sizes[trial.run_id])
        points.setdefault(key, {}).setdefault(place, []).append(trial)
    drawings = [
        _chart(f"state-size-{number}", points[key], measured.runs)
        for number, key in enumerate(sorted(points), 1)
    ]
    reason = f"No live run of the selection trains a workload with the option {STATE_BYTES}."
    return drawings or [Drawing("state-size", TITLE, missing=reason)]


def _chart(
    name: str, points: dict[tuple[str, float], list[RescaleTrial]], runs: Sequence[ReportRun]
) -> Drawing:
    systems = sorted({system for system, _ in points})
    own = {trial.run_id: system for (system, _), trials in points.items() for trial in trials}
    baselines = {own[run.run_id] for run in runs if run.run_id in own and run.backend == BASELINE}
    beside: dict[float, list[list[float]]] = {}
    for (system, size), trials in points.items():
        if system in baselines:
            beside.setdefault(size, []).append(net_losses(trials))
    looks = style.Looks(systems)
    figure = style.new_figure(3.6)
    left, right = figure.subplots(1, 2)
    rows = []
    for system in systems:
        line: list[tuple[float, float, float, float]] = []
        losses: list[tuple[float, float]] = []
        for size in sorted(size for other, size in points if other == system):
            trials = points[system, size]
            stops = [t.stopping_time_s for t in trials if t.stopping_time_s is not None]
            lost = net_losses(trials)
            if stops:
                low, middle, high = np.percentile(1000 * np.array(stops), [25, 50, 95])
                line.append((size / 1e6, low, middle, high))
            if lost:
                losses.append((size / 1e6, float(np.median(lost))))
            others = [] if system in baselines else beside.get(size, [])
            baseline = others[0] if len(others) == 1 else []  # several may differ in warmth
            rows.append(_row(system, size, stops, lost, baseline))
        _lines(left, line, looks, system)
        if losses:
            _loss_line(right, losses, looks, system, is_baseline=system in baselines)
    sizes_mb = sorted({size / 1e6 for _, size in points})
    for kind, bytes_per_s in bandwidths(runs).items():
        times = [1000 * 1e6 * size / bytes_per_s for size in sizes_mb]
        left.plot(sizes_mb, times, color=style.MUTED, linewidth=1, linestyle=_REFERENCE[kind],
                  label=f"{kind} at {bytes_per_s / 1e9:.1f} GB/s")  # fmt: skip
    left.set_xscale("log")
    left.set_yscale("log")
    right.set_xscale("log")
    right.set_yscale("symlog", linthresh=1.0)
    right.axhline(0, color=style.INK, linewidth=0.7)
    for axis in (left.xaxis, left.yaxis, right.xaxis):
        style.plain_log_ticks(axis)
    style.plain_log_ticks(right.yaxis, linear_to=1.0)
    left.set_ylabel("stopping time (ms, logarithmic)")
    right.set_ylabel("samples lost, net (steps)")
    for plain in (left, right):
        plain.set_xlabel("parameters and optimizer state (MB)")
    figure.legend(loc="outside upper left", ncols=3)
    cell = next(iter(points.values()))[0].cell
    ids = {trial.run_id for trials in points.values() for trial in trials}
    own_runs = [run for run in runs if run.run_id in ids]
    style.put_count_note(figure, [len(trials) for trials in points.values()], own_runs)
    return Drawing(
        name=name,
        title=f"{TITLE}: {cell.change}",
        caption="Medians; bars from the lower quartile to the 95th percentile. The grey lines "
        "are the times to copy that many bytes once, in memory and through a loopback "
        "socket, as measured on this machine; dashed on the right: a tenth of the loss "
        "of a warm restart. Steps grow longer with the state, so the loss in steps can "
        "fall while the pause rises. Net: steps after the switch are compared with the "
        "speed at which the new size settles; logarithmic beyond ±1.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=Table(
            [*_HEADER, "lost p50 steps, net", "of a warm restart's"],
            rows,
        ),
    )


_HEADER = ("system, state", "n", "stop p50 ms", "95% interval", "stop p95 ms")
_REFERENCE = {"memory copy": style.DASHES[2], "loopback socket": style.DASHES[1]}


def _lines(
    axis: Axes, line: Sequence[tuple[float, float, float, float]], looks: style.Looks, system: str
) -> None:
    if not line:
        return
    sizes, low, middle, high = (np.array(values) for values in zip(*line, strict=True))
    axis.errorbar(
        sizes, middle, yerr=[middle - low, high - middle], marker="o", markersize=4, capsize=2,
        linewidth=1.3, label=system, **looks.line(system),
    )  # fmt: skip


def _loss_line(
    axis: Axes,
    losses: Sequence[tuple[float, float]],
    looks: style.Looks,
    system: str,
    *,
    is_baseline: bool,
) -> None:
    sizes, lost = (np.array(values) for values in zip(*losses, strict=True))
    axis.plot(sizes, lost, marker="o", markersize=4, **looks.line(system))
    if is_baseline:
        axis.plot(
            sizes, lost / SHARE, marker="_", linestyle=style.DASHES[1], linewidth=1,
            color=looks.colour(system), label=f"a tenth of {system}",
        )  # fmt: skip


def _row(
    system: str, size: float, stops: list[float], lost: list[float], beside: list[float]
) -> list[str]:
    cells = [f"{system}, {size / 1e6:,.0f} MB", str(max(len(stops), len(lost)))]
    if stops:
        in_ms = [1000 * stop for stop in stops]
        middle = percentile_interval(in_ms)
        cells += [f"{middle.value:.3g}", interval_text(middle, ".3g")]
        cells += [f"{np.percentile(in_ms, 95):.3g}"]
    else:
        cells += ["", "", ""]
    cells.append(f"{np.median(lost):.2f}" if lost else "")
    cells.append(f"{np.median(lost) / np.median(beside):.2f}" if lost and beside else "")
    return cells


def bandwidths(runs: Sequence[ReportRun], places: Sequence[Path] = RESULT_DIRS) -> dict[str, float]:
    """Return bytes per second by kind of copy, as measured on the machine of these runs.

    The result is empty if the runs come from several machines or nothing was measured.
    """
    slugs = {hardware_slug(run.stored.manifest["hardware"]) for run in runs}
    found: dict[str, Any] = {}
    for place in places if len(slugs) == 1 else ():
        path = place / next(iter(slugs)) / NAME / RECORD
        if path.is_file():
            found = parse_json(read_text(path))["bytes_per_s"]
            break
    return {kind: float(value["median"]) for kind, value in found.items() if kind in _REFERENCE}


FIGURE = Declared(draw)
