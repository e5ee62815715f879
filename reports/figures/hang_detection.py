"""Time until a silent worker is killed, and the rate of false kills, over the time-out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from harness.metrics.statistics import percentile_interval, poisson_rate
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.hangs import HangCell, Watched, watched
from reports.runs.selection import ReportRun

TITLE = "Silent hangs: detection against false kills"
_KILLED, _NEXT_STEP = "killed", "survivors' next step"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each workload: detection on the left, false kills on the right."""
    found = watched(
        runs
    )  # runs whose job was lost are included, and count as having trained nothing
    workloads = sorted({cell.workload for cell in found})
    reason = "No live run of the selection watched for hangs (engine=live_faults)."
    return [
        _chart(number, {cell: seen for cell, seen in found.items() if cell.workload == workload})
        for number, workload in enumerate(workloads, 1)
    ] or [Drawing("hang-detection", TITLE, missing=reason)]


def _chart(number: int, cells: dict[HangCell, Watched]) -> Drawing:
    loads = sorted({cell.stress_processes for cell in cells})
    figure = style.new_figure(3.3)
    left, right = figure.subplots(1, 2, sharex=True)
    timeouts_ms = sorted({1000 * cell.hang_timeout_s for cell in cells})
    left.plot(timeouts_ms, timeouts_ms, color=style.MUTED, linewidth=0.9, linestyle=":",
              label="the time-out itself")  # fmt: skip
    looks = style.Looks([_KILLED, _NEXT_STEP, *map(_load, loads)])
    for load in loads:
        own = {c.hang_timeout_s: seen for c, seen in cells.items() if c.stress_processes == load}
        hangs = {1000 * at: seen for at, seen in own.items() if seen.detection_s}
        if hangs:
            beside = f" ({_load(load)})" if load else ""
            for name, shift in ((_KILLED, 0.985), (_NEXT_STEP, 1.015)):
                times = {at * shift: _times_ms(seen, name) for at, seen in hangs.items()}
                _medians(left, times, f"{name}{beside}", looks.colour(name), load)
        _rates(right, {1000 * at: seen for at, seen in own.items()}, load, loads, looks)
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("silence after which a worker is killed (ms)")
    left.set_ylabel("time from the signal (ms)")
    is_bound = not any(seen.num_false_kills for seen in cells.values())
    right.set_ylabel(
        "false kills (per hour)" + ("\nnone seen: upper ends of 95% intervals" if is_bound else "")
    )
    for axis in (left, right):
        style.plain_log_ticks(axis.yaxis)
    left.xaxis.set_major_locator(FixedLocator(_apart(timeouts_ms)))
    left.xaxis.set_minor_locator(NullLocator())
    left.xaxis.set_major_formatter("{x:g}")
    for axis in (left, right):
        axis.tick_params(axis="x", labelrotation=45)
    figure.legend(loc="outside upper left", ncols=3)
    runs = [run for seen in cells.values() for run in seen.runs]
    style.put_count_note(figure, [len(seen.runs) for seen in cells.values()], runs)
    workload = next(iter(cells)).workload
    return Drawing(
        name=f"hang-detection-{number}",
        title=f"{TITLE} ({workload})",
        caption="Left: a worker is stopped (SIGSTOP); medians, bars to the 95th percentile; the "
                "duration of a usual step is subtracted from the time to the next step. Right: "
                "kills of silent workers that had not been stopped, over the time in which the "
                "job had two workers or more, with the exact 95% interval; an open triangle is "
                "the upper end of that interval if no worker was killed. Busy processes compete "
                "with the workers for the cores.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            [
                "time-out: load", "hangs", "killed p50 ms", "95% interval", "killed p95 ms",
                "next step p50 ms", "next step p95 ms", "watched h", "false kills", "per hour",
                "exact 95% interval",
            ],
            [_row(cell, seen) for cell, seen in cells.items()],
        ),
    )  # fmt: skip


def _apart(values: Sequence[float]) -> list[float]:
    """Return values far enough apart that their labels do not touch on a logarithmic axis."""
    shown: list[float] = []
    for value in values:
        if not shown or value >= 1.3 * shown[-1]:
            shown.append(value)
    return shown


def _load(stress_processes: int) -> str:
    if not stress_processes:
        return "no load"
    return f"{stress_processes} busy process{'es' if stress_processes > 1 else ''}"


def _times_ms(seen: Watched, name: str) -> list[float]:
    times_s = seen.detection_s if name == _KILLED else seen.next_step_s
    return [1000 * time_s for time_s in times_s]


def _medians(
    axis: Axes, times: dict[float, list[float]], label: str, colour: str, load: int
) -> None:
    at = [place for place, values in times.items() if values]
    middle = np.array([np.median(times[place]) for place in at])
    high = np.array([np.percentile(times[place], 95) for place in at])
    axis.errorbar(
        at, middle, yerr=[np.zeros_like(middle), high - middle], marker="oDs^"[load % 4],
        markersize=4, capsize=2, linewidth=1.2, color=colour, label=label,
        markerfacecolor=style.PAPER if load else colour,
    )  # fmt: skip


def _rates(
    axis: Axes, own: dict[float, Watched], load: int, loads: Sequence[int], looks: style.Looks
) -> None:
    """Draw the kills per hour with their interval; without kills, the upper end alone."""
    shift = 1.0 + 0.04 * (loads.index(load) - (len(loads) - 1) / 2)
    colour, label = looks.colour(_load(load)), _load(load)
    for at, seen in own.items():
        if not seen.hours:
            continue
        rate, low, high = poisson_rate(seen.num_false_kills, seen.hours)
        if seen.num_false_kills:
            axis.errorbar(
                at * shift, rate, yerr=[[rate - low], [high - rate]], marker="o", markersize=4,
                capsize=2, color=colour, label=label,
            )  # fmt: skip
        else:
            axis.plot(at * shift, high, "v", markersize=5, color=colour, label=label,
                      markerfacecolor=style.PAPER)  # fmt: skip
        label = "_"  # only one label in the legend


def _row(cell: HangCell, seen: Watched) -> list[str]:
    cells = [
        f"{1000 * cell.hang_timeout_s:g} ms: {_load(cell.stress_processes)}", str(seen.num_hangs)
    ]  # fmt: skip
    killed, after = _times_ms(seen, _KILLED), _times_ms(seen, _NEXT_STEP)
    if killed:
        middle = percentile_interval(killed)
        cells += [f"{middle.value:.4g}", interval_text(middle, ".4g")]
        cells += [f"{np.percentile(killed, 95):.4g}"]
    else:
        cells += ["", "", ""]
    cells += [f"{np.percentile(after, share):.4g}" if after else "" for share in (50, 95)]
    cells += [f"{seen.hours:.2f}", str(seen.num_false_kills)]
    if not seen.hours:
        return [*cells, "", ""]
    rate, low, high = poisson_rate(seen.num_false_kills, seen.hours)
    return [*cells, f"{rate:.3g}", f"{low:.3g} to {high:.3g}"]


FIGURE = Declared(draw)
