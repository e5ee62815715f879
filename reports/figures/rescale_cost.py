"""Cost of a rescale: stopping time, and samples lost compared with A/A trials, for each workload,
change of size and system (EDL, section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from harness.metrics.statistics import percentile_interval, ratio_of_medians
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.rescales import Measured, RescaleCell, RescaleTrial, by_change, measure
from reports.runs.selection import ReportRun

TITLE = "What a rescale costs"
BASELINE = "stop-resume"
_FLOOR_MS = 0.01
"""Start of the logarithmic axis: shorter stops are drawn here, and are in the table."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each change of size: stops and losses of every workload and system."""
    measured = measure(runs)
    cells = {cell: trials for cell, trials in measured.by_cell().items() if _stops(trials)}
    drawings = [
        _chart(f"rescale-cost-{number}", own, measured)
        for number, own in enumerate(by_change(cells), 1)
    ]
    reason = "No live run of the selection has rescales whose stopping time was measured."
    return drawings or [Drawing("rescale-cost", TITLE, missing=reason)]


def _stops(trials: Sequence[RescaleTrial]) -> list[float]:
    return [trial.stopping_time_s for trial in trials if trial.stopping_time_s is not None]


def _losses(trials: Sequence[RescaleTrial]) -> list[float]:
    return [trial.lost_steps for trial in trials if trial.lost_steps is not None]


def _net(trials: Sequence[RescaleTrial]) -> list[float]:
    return [trial.net_steps for trial in trials if trial.net_steps is not None]


def _chart(name: str, cells: dict[RescaleCell, list[RescaleTrial]], measured: Measured) -> Drawing:
    systems = sorted({cell.system for cell in cells})
    rows = sorted({(cell.workload, cell.setting) for cell in cells})
    looks = style.Looks(trial.cell.system for trial in measured.trials)
    figure = style.new_figure(1.7 + len(rows) * (0.2 + 0.19 * len(systems)))
    left, right = figure.subplots(1, 2, sharey=True)
    step = 0.8 / len(systems)
    for cell, trials in cells.items():
        row = rows.index((cell.workload, cell.setting))
        place = row + (systems.index(cell.system) + 0.5) * step - 0.4
        label = cell.system if row == _first_row(cell.system, rows, cells) else None
        stops = [max(1000 * stop, _FLOOR_MS) for stop in _stops(trials)]
        _points(left, stops, place, step, looks.colour(cell.system), label)
        left.annotate(
            f"n = {len(stops)}", (1.0, place), xycoords=left.get_yaxis_transform(), ha="right",
            va="center", fontsize=style.SMALL_PT, color=style.MUTED,
        )  # fmt: skip
        _points(right, _losses(trials), place, step, looks.colour(cell.system), None)
        _noise_band(right, place, step, measured, cell)
    left.set_xscale("log")
    low, high = left.get_xlim()
    left.set_xlim(low, high * (high / low) ** 0.12)
    style.plain_log_ticks(left.xaxis)
    right.set_xscale("symlog", linthresh=1.0, linscale=1.0)
    style.plain_log_ticks(right.xaxis, linear_to=1.0)
    right.axvline(0, color=style.INK, linewidth=0.8)
    left.set_yticks(np.arange(len(rows)), [workload for workload, _ in rows])
    left.set_ylim(len(rows) - 0.45, -0.55)
    left.set_xlabel("stopping time (ms, logarithmic)")
    right.set_xlabel("samples lost (steps, logarithmic beyond ±1)")
    left.set_ylabel("program (name)")
    for axis in (left, right):
        axis.grid(visible=False, axis="y")
    figure.legend(loc="outside upper left", ncols=min(3, len(systems)))
    ids = {trial.run_id for trials in cells.values() for trial in trials}
    own_runs = [run for run in measured.runs if run.run_id in ids]
    style.put_count_note(figure, [len(_stops(trials)) for trials in cells.values()], own_runs)
    change = next(iter(cells)).change
    settings = sorted({cell.setting.partition(", ")[0] for cell in cells})
    return Drawing(
        name=name,
        title=f"{TITLE}: {change} ({'; '.join(settings)})",
        caption="Diamonds are medians over changes, bars reach to the 95th percentile, dots are "
        "single changes. The grey bands on the right span the central 95% of A/A trials: "
        "the same formula at random moments without a change, over periods as long as "
        "the system's rescales. A loss inside its band is not distinguishable from zero. "
        "The loss is the additional work that an undisturbed job of the old size would "
        "have done; 'net' in the table compares the five steps after the switch with the "
        "speed of the new size.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=_table(cells, measured),
    )


def _first_row(
    system: str, rows: Sequence[tuple[str, str]], cells: dict[RescaleCell, list[RescaleTrial]]
) -> int:
    return min(rows.index((cell.workload, cell.setting)) for cell in cells if cell.system == system)


def _points(
    axis: Axes, values: Sequence[float], place: float, step: float, colour: str, label: str | None
) -> None:
    if not values:
        return
    spread = np.linspace(-0.3, 0.3, len(values)) * step if len(values) > 1 else [0.0]
    axis.plot(values, place + np.asarray(spread), "o", color=colour, markersize=2.2, alpha=0.45,
              markeredgewidth=0)  # fmt: skip
    middle, high = np.percentile(values, [50, 95])
    axis.plot([middle, high], [place, place], color=colour, linewidth=1.4)
    axis.plot(high, place, "|", color=colour, markersize=6)
    axis.plot(middle, place, "D", color=colour, markersize=4.2, label=label)


def _noise(measured: Measured, cell: RescaleCell) -> list[float]:
    """Return the losses of A/A trials of the same system, over times as long as its rescales."""
    return [
        one.lost_steps
        for one in measured.noise_of(
            workload=cell.workload, setting=cell.setting, system=cell.system,
            before=cell.before, after=cell.after,
        )
    ]  # fmt: skip


def _noise_band(
    axis: Axes, place: float, step: float, measured: Measured, cell: RescaleCell
) -> None:
    losses = _noise(measured, cell)
    if len(losses) < 5:
        return
    low, high = np.percentile(losses, [2.5, 97.5])
    half = 0.46 * step
    axis.fill_betweenx(
        [place - half, place + half],
        low,
        high,
        color=style.MUTED,
        alpha=0.22,
        linewidth=0,
        zorder=0.5,
    )


def _table(cells: dict[RescaleCell, list[RescaleTrial]], measured: Measured) -> Table:
    header = [
        "workload: system", "n", "stop p50 ms", "95% interval", "stop p95 ms",
        f"{BASELINE} / this", "lost p50 steps", "95% interval", "lost p95", "net p50",
        "A/A p50", "A/A 2.5 to 97.5%", "A/A n",
    ]  # fmt: skip
    rows = []
    for cell, trials in cells.items():
        noise = _noise(measured, cell)
        stops, losses, net = _stops(trials), _losses(trials), _net(trials)
        band = np.percentile(noise, [2.5, 50, 97.5]) if noise else None
        rows.append(
            [
                f"{cell.workload}: {cell.system}",
                str(len(stops)),
                *_estimate([1000 * stop for stop in stops], ".3g"),
                _ratio(cell, cells),
                *_estimate(losses, ".2f"),
                f"{np.median(net):.2f}" if net else "",
                "" if band is None else f"{band[1]:.2f}",
                "" if band is None else f"{band[0]:.2f} to {band[2]:.2f}",
                str(len(noise)),
            ]
        )
    return Table(header, rows)


def _estimate(values: Sequence[float], form: str) -> list[str]:
    """Return the median, its interval, and the 95th percentile, as texts."""
    if not values:
        return ["", "", ""]
    middle = percentile_interval(values)
    return [
        format(middle.value, form),
        interval_text(middle, form),
        format(float(np.percentile(values, 95)), form),
    ]


def _ratio(cell: RescaleCell, cells: dict[RescaleCell, list[RescaleTrial]]) -> str:
    """Return how many times longer each baseline of the workload stops; empty if none was
    measured."""
    beside = [
        other
        for other in cells
        if other.system.startswith(BASELINE)
        and (other.workload, other.setting) == (cell.workload, cell.setting)
    ]
    stops = _stops(cells[cell])
    if not beside or cell in beside or not stops or min(stops) <= 0:
        return ""
    texts = []
    for other in beside:
        found = ratio_of_medians(_stops(cells[other]), stops)
        name = other.system.removeprefix(BASELINE).strip()
        texts.append(f"{name} {found.value:.3g} ({interval_text(found, '.3g')})".strip())
    return "; ".join(texts)


FIGURE = Declared(draw)
