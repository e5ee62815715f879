"""Accuracy of every class at the end, on different numbers of workers (EasyScale, figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.panels import panels
from reports.figures.declared import Declared
from reports.measures.accuracy import (
    Trained,
    by_way,
    by_workload,
    models_of_a_seed,
    named_workers,
    over_seeds,
    same_bits,
    trained,
    worker_names,
)
from reports.measures.model_spread import held_out_accuracy, spread
from reports.runs.selection import ReportRun

TITLE = "Accuracy of every class"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each workload, with a panel for each way of training."""
    models = [model for model in trained(runs) if model.gamma is None]
    if not models:
        reason = (
            "No run of the selection trained one job to its end and recorded the accuracy of "
            "its classes."
        )
        return [Drawing("class_accuracy", TITLE, missing=reason)]
    return [
        _chart(number, workload, own, runs)
        for number, (workload, own) in enumerate(by_workload(models).items(), start=1)
    ]


def _chart(
    number: int, workload: str, models: Sequence[Trained], runs: Sequence[ReportRun]
) -> Drawing:
    ways = by_way(models)
    workers = worker_names(models)
    looks = style.Looks(workers)
    labels = sorted({label for model in models for label in model.by_class})
    figure, axes, lowest = panels(len(ways), 2)
    for axis, (way, own) in zip(axes, ways.items(), strict=True):
        for place, label in enumerate((None, *labels)):
            values = [100 * held_out_accuracy(model, label) for model in own]
            axis.vlines(place, min(values), max(values), color=style.GRID, linewidth=6, zorder=1)
            for model in own:
                number = workers.index(model.workers)
                percent = 100 * held_out_accuracy(model, label)
                axis.plot(
                    place + (number - (len(workers) - 1) / 2) * 0.13, percent,
                    "os^Dv"[number % 5], color=looks.colour(model.workers), markersize=3.5,
                    linestyle="none", zorder=2,
                )  # fmt: skip
        axis.set_title(way.replace(": ", ":\n", 1), fontsize=8.5)
        axis.set_ylabel("held-out accuracy (%)")
        axis.set_xticks(range(len(labels) + 1), ["all", *map(str, labels)])
        axis.label_outer()
    for axis in lowest:
        axis.xaxis.set_tick_params(labelbottom=True)
        axis.set_xlabel("class")
    for number, name in enumerate(workers):  # the legend has the order of the names
        axes[0].plot(
            [], [], "os^Dv"[number % 5], color=looks.colour(name), markersize=3.5,
            linestyle="none", label=named_workers(name),
        )  # fmt: skip
    style.put_legend(figure)
    ids = [model.run_id for model in models]
    style.put_count_note(figure, [1], [run for run in runs if run.run_id in set(ids)])
    return Drawing(
        name=f"class_accuracy-{number}",
        title=f"{TITLE}: {workload}",
        caption="Accuracy at the end of training. Each marker is one run; grey lines go from the "
                "lowest to the highest. Spread: highest minus lowest over numbers of workers, in "
                "percentage points (over seeds: mean of the seeds' spreads). After EasyScale (Li "
                "et al., SC '23), figure 3.",
        run_ids=ids,
        figure=figure,
        table=Table(
            ["way", "runs", "different models", "same bits as", "overall spread",
             "class spread, mean", "class spread, most", "worst class, %"],
            [
                *(_row(way, own, labels, same_bits(own, ways)) for way, own in ways.items()),
                *(_seeds_row(name, own, labels) for name, own in over_seeds(models).items()),
            ],
        ),
    )  # fmt: skip


def _row(way: str, own: Sequence[Trained], labels: Sequence[int], same: str) -> list[str]:
    spreads = [spread(own, label) for label in labels]
    return [
        way,
        str(len(own)),
        str(models_of_a_seed(own)),
        same,
        f"{100 * spread(own, None):.1f}",
        f"{100 * fmean(spreads):.1f}",
        f"{100 * max(spreads):.1f}",
        f"{100 * min(value for model in own for value in model.by_class.values()):.1f}",
    ]


def _seeds_row(name: str, own: Sequence[Trained], labels: Sequence[int]) -> list[str]:
    """Return a row with the effect of the seed alone, for comparison with other differences."""
    alike = [replace(model, seed=0) for model in own]
    row = _row(f"{name}: over seeds", alike, labels, "")
    return [*row[:2], "", *row[3:]]


FIGURE = Declared(draw)
