"""Throughput when workers become slow, with the rule that removes stragglers and without it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.stragglers import Case, cases, watched
from reports.runs.selection import ReportRun

TITLE = "Stragglers"
_RULES = {"off": "nothing is done", "remove": "stragglers are removed"}
_SHOWN_S = (-5.0, 15.0)
_Cell = tuple[str, int, int, float]
"""Workload, number of workers, number of slow workers, and their speed."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure, with a panel for each number of workers, number of slow workers and
    speed."""
    found = [case for case in cases(runs) if case.usual]
    if not found:
        reason = "No live run of the selection has slowed workers (engine.faults.speed)."
        return [Drawing("straggler", TITLE, missing=reason)]
    return [_chart(found, runs)]


def _chart(found: Sequence[Case], runs: Sequence[ReportRun]) -> Drawing:
    cells = sorted({_cell(case) for case in found}, key=lambda c: (c[0], c[1], c[2], -c[3]))
    rules = [rule for rule in _RULES if any(case.rule == rule for case in found)]
    looks = style.Looks(_RULES)
    columns = min(3, len(cells))
    lines = -(-len(cells) // columns)
    figure = style.new_figure(0.7 + 2.3 * lines)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    rows, counts = [], []
    for axis in axes.flat[len(cells) :]:
        axis.set_visible(False)
    for axis, cell in zip(axes.flat, cells, strict=False):
        _, workers, slow, speed = cell
        for rule in rules:
            own = [case for case in found if (_cell(case), case.rule) == (cell, rule)]
            if not own:
                continue
            counts.append(len(own))
            rows.append(_row(cell, rule, own))
            for case in own:
                times, shares = _shares(case)
                axis.plot(times, shares, alpha=0.6, linewidth=1.3, **looks.line(rule))
        axis.axvline(0, color=style.MUTED, linewidth=0.9)
        without = 100 * (workers - slow) / workers
        axis.axhline(without, color=style.MUTED, linewidth=0.9, linestyle=style.DASHES[2])
        who = "1 worker" if slow == 1 else f"{slow} workers"
        axis.set_title(f"{who} of {workers} at {speed:.0%} speed", fontsize=8.5)
        axis.set_xlim(*_SHOWN_S)
        axis.set_ylabel("throughput (% of before)")
        axis.set_ylim(0, 115)
        axis.label_outer()
    for axis in axes.flat[max(0, len(cells) - columns) : len(cells)]:  # the lowest of a column
        axis.xaxis.set_tick_params(labelbottom=True)
        axis.set_xlabel("time since workers became slow (s)")
    handles = [axes[0][0].plot([], [], label=_RULES[rule], **looks.line(rule))[0] for rule in rules]
    level = axes[0][0].plot(
        [], [], color=style.MUTED, linewidth=0.9, linestyle=style.DASHES[2],
        label="without slow workers, at no cost",
    )  # fmt: skip
    figure.legend(handles=[*handles, *level], loc="outside upper left", ncols=3)
    ids = {case.run_id for case in found}
    own_runs = [run for run in runs if run.run_id in ids]
    style.put_count_note(figure, counts, own_runs)
    quiet = watched(runs)
    rows += [_quiet_row(sum(one.quiet_s for one in quiet), sum(one.num_mistaken for one in quiet))]
    return Drawing(
        name="straggler-1",
        title=TITLE,
        caption="From one moment on, workers are repeatedly stopped and continued, so that they "
                "run at a share of their speed. Each line is one run: samples per second over "
                "one second, in % of the same run before. From that moment, the table counts the "
                "time to the first report of the slow workers and to the first step without them.",
        run_ids=sorted(ids | {one.run_id for one in quiet}),
        figure=figure,
        table=Table(
            ["workers: rule", "runs", "before, samples/s", "slow %", "after %", "removed",
             "detected s", "worst s", "switched s", "worst s"],
            rows,
        ),
    )  # fmt: skip


def _cell(case: Case) -> _Cell:
    return (case.workload, case.num_workers, case.num_slow, case.speed)


def _shares(case: Case) -> tuple[list[float], list[float]]:
    assert case.usual is not None
    shown = [point for point in case.curve if _SHOWN_S[0] <= point[0] <= _SHOWN_S[1]]
    return [time_s for time_s, _ in shown], [100 * rate / case.usual for _, rate in shown]


def _row(cell: _Cell, rule: str, own: Sequence[Case]) -> list[str]:
    _, workers, slow, speed = cell
    usual = [case.usual for case in own if case.usual is not None]
    return [
        f"{slow} of {workers} at {speed:.0%}: {_RULES[rule]}",
        str(len(own)),
        f"{median(usual):.0f}",
        _percent([case.slow / case.usual for case in own if case.slow and case.usual]),
        _percent([case.after / case.usual for case in own if case.after and case.usual]),
        f"{sum(case.num_removed for case in own)} of {slow * len(own)}",
        *_seconds([case.detected_s for case in own]),
        *_seconds([case.switched_s for case in own]),
    ]


def _quiet_row(quiet_s: float, mistaken: int) -> list[str]:
    """Return the row for the time without slow workers, in which every removal is a mistake."""
    name = f"no slow workers, {quiet_s:.0f} s in all: {_RULES['remove']}"
    return [name, "", "", "", "", f"{mistaken} by mistake", "", "", "", ""]


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * median(shares):.1f}" if shares else ""


def _seconds(times_s: Sequence[float | None]) -> list[str]:
    known = [time_s for time_s in times_s if time_s is not None]
    return [f"{median(known):.2f}", f"{max(known):.2f}"] if known else ["", ""]


FIGURE = Declared(draw)
