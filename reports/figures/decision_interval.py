"""Completion times by the interval between decisions (Saxena et al., section V-B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups

TITLE = "Mean JCT by the interval between decisions"
_OTHER = {"event": "at every event", "hybrid": "periodically, or when enough jobs have ended"}
"""Labels of triggers without a fixed period."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting: a curve over periods, and a line for each other
    trigger."""
    found = [run for run in runs if _options(run).get("trigger") and "jct_mean_s" in run.metrics]
    drawings = [
        _chart(f"decision-interval-{number}", setting, own)
        for number, ((setting,), own) in enumerate(groups(found, "setting").items(), 1)
        if len({_options(run).get("period_s") for run in own if _is_periodic(run)}) > 1
    ]
    reason = "No scheduler of the selection decides at several periods."
    return drawings or [Drawing("decision-interval", TITLE, missing=reason)]


def _options(run: ReportRun) -> Mapping[str, Any]:
    return run.stored.config.get("scheduler", {})  # type: ignore[no-any-return]


def _is_periodic(run: ReportRun) -> bool:
    return bool(_options(run)["trigger"] == "period")


def _chart(name: str, setting: str, runs: Sequence[ReportRun]) -> Drawing:
    periods: dict[float, list[float]] = {}
    others: dict[str, list[float]] = {}
    for run in runs:
        jct_min = run.metrics["jct_mean_s"] / 60.0
        if _is_periodic(run):
            periods.setdefault(float(_options(run)["period_s"]) / 60.0, []).append(jct_min)
        else:
            others.setdefault(str(_options(run)["trigger"]), []).append(jct_min)
    figure = style.new_figure(3.2)
    axis = figure.subplots()
    every = sorted(periods)
    looks = style.Looks(["period", *sorted(others)])
    means = [fmean(periods[one]) for one in every]
    below = [mean - min(periods[one]) for one, mean in zip(every, means, strict=True)]
    above = [max(periods[one]) - mean for one, mean in zip(every, means, strict=True)]
    axis.errorbar(
        every, means, [below, above], marker="o", markersize=4, capsize=3, label="on the clock",
        **looks.line("period"),
    )  # fmt: skip
    rows = [[f"every {one:g} min", *_cells(periods[one])] for one in every]
    for trigger, values in sorted(others.items()):
        label = _OTHER.get(trigger, trigger)
        axis.axhline(fmean(values), label=label, **looks.line(trigger))
        rows.append([label, *_cells(values)])
    axis.set_xscale("log")
    axis.set_xticks(every, [f"{one:g}" for one in every])
    axis.minorticks_off()
    axis.set_xlabel("time between two decisions (min, logarithmic)")
    axis.set_ylabel("mean JCT (min)")
    axis.set_ylim(bottom=0)
    style.put_note(figure, runs)
    style.put_legend(figure)
    return Drawing(
        name=name,
        title=f"{TITLE}: {setting}",
        caption="Means over trials; bars and brackets go from the lowest to the highest trial.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(["decides", "trials", "mean JCT, min"], rows),
    )


def _cells(values: Sequence[float]) -> list[str]:
    spread = f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else ""
    return [str(len(values)), f"{fmean(values):.1f}{spread}"]


FIGURE = Declared(draw, tables=())
