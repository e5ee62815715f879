"""Gain of a job that uses slots that come and go (EDL, section 6.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from harness.results.records import StepRecord
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.measures.rescales import system_names
from reports.runs.selection import ReportRun

TITLE = "Transient slots"


@dataclass(frozen=True)
class Point:
    """One run that used a transient slot."""

    run_id: str
    workload: str
    system: str
    window_s: float
    samples_per_s: float
    stop_s: float | None
    """Median stopping time of the run's changes, seconds."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: gain over the baseline against the length of the window."""
    live = [run for run in runs if run.is_live and len(run.jobs) == 1]
    points = transient_points(live)
    steady = steady_speeds(live)
    workloads = sorted({p.workload for p in points if p.workload in steady})
    if not workloads:
        reason = "No live run of the selection has a script with every_s beside a baseline."
        return [Drawing("transient-slots", TITLE, missing=reason)]
    return [_chart(workloads, points, steady, live)]


def transient_points(runs: Sequence[ReportRun]) -> list[Point]:
    """Return the points of runs whose script repeats on the clock.

    The throughput is over all whole windows except the first.
    """
    scripted = [run for run in runs if _every_s(run) > 0]
    names = system_names(scripted)
    found = []
    for run in scripted:
        window_s = _every_s(run)
        speed = whole_windows(run.stored.rows("steps"), window_s, script_end_s(run))
        stops = [c.stopping_time_s for c in run.changes if c.stopping_time_s is not None]
        if speed is not None:
            found.append(
                Point(
                    run.run_id, run.jobs[0].workload, names[run.run_id], window_s, speed,
                    median(stops) if stops else None,
                )
            )  # fmt: skip
    return found


def script_end_s(run: ReportRun) -> float:
    """Return when the last change of slots was complete; a job may train on after its script."""
    ends = [change.ended_s for change in run.changes if change.ended_s is not None]
    return max(ends, default=math.inf)


def whole_windows(
    steps: Sequence[StepRecord], window_s: float, until_s: float = math.inf
) -> float | None:
    """Return the samples per second over all whole windows but the first; None if there is none.

    A step counts with the part of it that lies inside.

    Args:
        steps: steps of one job, in order.
        window_s: length of a window; the first begins at 0.
        until_s: windows that end later do not count.
    """
    if not steps:
        return None
    last_s = min(steps[-1].started_s + steps[-1].duration_s, until_s)
    end_s = int(last_s // window_s) * window_s
    if end_s <= window_s:
        return None
    samples = 0.0
    for step in steps:
        stop_s = step.started_s + step.duration_s
        inside_s = min(stop_s, end_s) - max(step.started_s, window_s)
        if inside_s > 0:
            samples += step.global_batch * inside_s / step.duration_s
    return samples / (end_s - window_s)


def steady_speeds(runs: Sequence[ReportRun]) -> dict[str, dict[int, float]]:
    """Return the samples per second of runs that never changed, by workload and slots.

    The values are means over runs, for workloads with runs on one slot and on two.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        steps = run.stored.rows("steps") if not run.jobs[0].num_rescales else []
        if len(steps) < 20 or _every_s(run) > 0:
            continue
        settled = steps[10:]
        length_s = settled[-1].started_s + settled[-1].duration_s - settled[0].started_s
        speed = sum(step.global_batch for step in settled) / length_s
        by_slots = found.setdefault(run.jobs[0].workload, {})
        by_slots.setdefault(settled[0].num_workers, []).append(speed)
    return {
        workload: {slots: fmean(values) for slots, values in by_slots.items()}
        for workload, by_slots in found.items()
        if {1, 2} <= by_slots.keys()
    }


def _every_s(run: ReportRun) -> float:
    return float(run.stored.config.get("scheduler", {}).get("every_s") or 0.0)


def break_even_s(stop_s: float, gain: float) -> float:
    """Return the least time T* that a transient slot must stay to be of use, in seconds.

    In this time, a share ``gain`` of more throughput brings what two rescales of ``stop_s`` seconds
    cost: 2 s (1 + g) / g (systems.md, section 1.11).
    """
    return 2 * stop_s * (1 + gain) / gain


def _chart(
    workloads: Sequence[str],
    points: Sequence[Point],
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
        axis.set_xlabel("window, second slot in its latter half (s)")
        axis.set_ylabel("samples more than on one slot (%)")
        axis.label_outer()
    for axis in axes:
        style.plain_log_ticks(axis.xaxis)
    figure.legend(loc="outside upper left", ncols=4)
    style.put_count_note(figure, counts, runs)
    return Drawing(
        name="transient-slots-1",
        title=TITLE,
        caption="Throughput over whole windows, the first one left out, against a job that"
        " leaves the second slot alone. Below the line it would have been better off without."
        " Break-even in the table: how long the slot must stay for two stops of the median"
        " length to pay, by EDL's reckoning.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            ["program: system", "runs", "1 slot, samples/s", "2 slots", "ideal %", "gain %",
             "break-even s"],
            rows,
        ),
    )  # fmt: skip
