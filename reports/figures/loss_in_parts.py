"""Parts of a change in which its samples are lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from matplotlib.patches import Patch

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.loss_parts import PARTS
from reports.measures.rescales import RescaleCell, RescaleTrial, by_change, measure, net_losses
from reports.measures.state_size import state_bytes
from reports.runs.selection import ReportRun

TITLE = "Where the samples of a rescale are lost"


@dataclass(frozen=True, order=True)
class _Bar:
    """Properties that the trials of a bar share; bars are sorted by these."""

    workload: str
    state_bytes: float
    """Size of the state in bytes; 0 if the workload's options do not give it."""
    dilation: float
    """Factor by which padded steps are longer (``engine.dilation``)."""
    global_batch: int
    system: str
    setting: str


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each change of size, with the parts of the loss.

    There is a bar for each workload and system, size of the state and length of the steps.
    """
    measured = measure(runs)
    own = {run.run_id: run for run in measured.runs}
    drawings: list[Drawing] = []
    for cells in by_change(measured.by_cell()):
        if bars := _bars(cells, own):
            drawings.append(_chart(f"loss-in-parts-{len(drawings) + 1}", bars, measured.runs))
    reason = "In no live run of the selection did a job continue training during a rescale."
    return drawings or [Drawing("loss-in-parts", TITLE, missing=reason)]


def _bars(
    cells: Mapping[RescaleCell, Sequence[RescaleTrial]], runs: Mapping[str, ReportRun]
) -> dict[_Bar, list[RescaleTrial]]:
    """Return the trials of each bar with known parts, for systems under which jobs continue to
    train.

    Bars are sorted.
    """
    found: dict[_Bar, list[RescaleTrial]] = {}
    for cell, trials in cells.items():
        for trial in trials:
            if trial.lost_in is not None:
                run = runs[trial.run_id]
                size, batch = state_bytes(run) or 0.0, trial.global_batch
                bar = _Bar(cell.workload, size, run.dilation, batch, cell.system, cell.setting)
                found.setdefault(bar, []).append(trial)
    return {bar: found[bar] for bar in sorted(found) if _trains_on(found[bar])}


def part_means(trials: Sequence[RescaleTrial]) -> Mapping[str, float]:
    """Return the mean of every part in steps of the old size; the sum is the mean ``net_steps``."""
    known = [trial.lost_in for trial in trials if trial.lost_in is not None]
    return {part: fmean(lost_in[part] for lost_in in known) for part in PARTS}


def _trains_on(trials: Sequence[RescaleTrial]) -> bool:
    """Return whether the job trains for more than two steps after the request, in the median."""
    return median(steps for trial in trials if (steps := trial.steps_before_stop) is not None) > 2


def _chart(name: str, bars: dict[_Bar, list[RescaleTrial]], runs: Sequence[ReportRun]) -> Drawing:
    means = {bar: part_means(trials) for bar, trials in bars.items()}
    figure = style.new_figure(max(2.4, 1.7 + 0.27 * len(bars)))
    axis = figure.subplots()
    colours = dict(zip(PARTS, style.PALETTE, strict=False))
    digits = _digits(means)
    for row, (trials, found) in enumerate(zip(bars.values(), means.values(), strict=True)):
        ends = {True: 0.0, False: 0.0}  # losses go to the right, gains to the left
        for part, lost in found.items():
            axis.barh(
                row, lost, left=ends[lost > 0], height=0.66, edgecolor=style.PAPER, linewidth=0.5,
                color=colours[part],
            )  # fmt: skip
            ends[lost > 0] += lost
        text = f"{sum(found.values()):z.{digits}f}, n = {len(trials)}"
        axis.annotate(text, (ends[True], row), (5, 0), textcoords="offset points", va="center",
                      fontsize=style.SMALL_PT)  # fmt: skip
    axis.axvline(0, color=style.INK, linewidth=0.8)
    axis.set_yticks(range(len(bars)), _labels(bars))
    axis.invert_yaxis()
    axis.margins(x=0.2)
    axis.set_xlabel("samples lost, net (steps of the old size, means)")
    axis.set_ylabel("system (name)")
    axis.grid(visible=False, axis="y")
    handles = [Patch(label=part, color=colours[part]) for part in PARTS]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(PARTS))
    ids = {trial.run_id for trials in bars.values() for trial in trials}
    own_runs = [run for run in runs if run.run_id in ids]
    style.put_count_note(figure, [len(trials) for trials in bars.values()], own_runs)
    return Drawing(
        name=name,
        title=f"{TITLE}: {next(iter(bars.values()))[0].cell.change}",
        caption="Systems under which a job continues to train after the request. The parts follow "
        "each other in time and add up to the net loss; therefore they are means, not "
        "medians. "
        + "; ".join(f"{part}: {meaning}" for part, meaning in PARTS.items())
        + ". A step's samples are spread evenly over its duration, because newcomers are counted "
        "in at some moment within a step.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=_table(bars, means),
    )


def _labels(bars: Mapping[_Bar, list[RescaleTrial]]) -> list[str]:
    """Return labels with program and system, and with other differences between bars of a
    program."""
    labels = []
    for bar, trials in bars.items():
        alike = [one for one in bars if one.workload == bar.workload]
        told = ""
        if len({one.state_bytes for one in alike}) > 1:
            told += f", {bar.state_bytes / 1e6:,.0f} MB"
        if len({one.dilation for one in alike}) > 1:
            step_s = median(trial.window.period_s for trial in trials if trial.window is not None)
            told += f", steps of {1000 * step_s:,.0f} ms"
        if len({one.global_batch for one in alike}) > 1:
            told += f", {bar.global_batch} samples"
        labels.append(f"{bar.workload}{told}: {bar.system}")
    return labels


def _digits(means: Mapping[_Bar, Mapping[str, float]]) -> int:
    """Return the number of decimals that distinguishes the losses of a chart."""
    return 2 if max(sum(found.values()) for found in means.values()) >= 0.2 else 3


def _table(
    bars: Mapping[_Bar, list[RescaleTrial]], means: Mapping[_Bar, Mapping[str, float]]
) -> Table:
    rows, form = [], f"z.{_digits(means)}f"
    for label, (bar, trials) in zip(_labels(bars), bars.items(), strict=True):
        parts = [f"{lost:{form}}" for lost in means[bar].values()]
        total = f"{sum(means[bar].values()):{form}}"
        middle = f"{median(net_losses(trials)):{form}}"
        rows.append([label, str(len(trials)), *parts, total, middle])
    header = ["program: system", "n", *PARTS, "together, mean", "together, median"]
    return Table([*header[:2], *(f"{part}, steps" for part in PARTS), *header[-2:]], rows)


FIGURE = Declared(draw)
