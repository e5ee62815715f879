"""Held-out accuracy by epoch, on different numbers of workers (EasyScale, figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.ticker import MaxNLocator

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
from reports.measures.model_spread import largest_spread, spread
from reports.runs.selection import ReportRun

TITLE = "Accuracy on different numbers of workers"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each workload, with a panel for each way of training."""
    models = [model for model in trained(runs) if len(model.curve) > 1 and model.gamma is None]
    if not models:
        reason = (
            "No run of the selection trained one job to its end and evaluated it during training "
            "(engine.fast_forward=false, engine.evaluate_epochs)."
        )
        return [Drawing("accuracy_curves", TITLE, missing=reason)]
    return [
        _chart(number, workload, own, runs)
        for number, (workload, own) in enumerate(by_workload(models).items(), start=1)
    ]


def _chart(
    number: int, workload: str, models: Sequence[Trained], runs: Sequence[ReportRun]
) -> Drawing:
    ways = by_way(models)
    names = worker_names(models)
    looks = style.Looks(names)
    figure, axes, lowest = panels(len(ways), 2)
    for axis, (way, own) in zip(axes, ways.items(), strict=True):
        for model in own:
            epochs, accuracies = np.array(model.curve).T
            axis.plot(
                epochs, 100 * accuracies, linewidth=1.3, alpha=0.85, **looks.line(model.workers)
            )
        axis.set_title(way.replace(": ", ":\n", 1), fontsize=8.5)
        axis.set_ylabel("held-out accuracy (%)")
        axis.label_outer()
    for axis in lowest:
        axis.xaxis.set_tick_params(labelbottom=True)
        axis.set_xlabel("epochs")
    least = min(accuracy for model in models for _, accuracy in model.curve)
    axes[0].set_ylim(max(0.0, 100 * least - 3), 101)
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    for workers in names:  # the legend has the order of the names
        axes[0].plot([], [], linewidth=1.3, label=named_workers(workers), **looks.line(workers))
    style.put_legend(figure)
    ids = [model.run_id for model in models]
    own_runs = [run for run in runs if run.run_id in set(ids)]
    style.put_count_note(figure, [1], own_runs)
    return Drawing(
        name=f"accuracy_curves-{number}",
        title=f"{TITLE}: {workload}",
        caption="Each line is one run, with the same data, seed and hyper-parameters but "
                "different workers. Equal lines cover each other; the table counts the models "
                "that differ in any bit. After EasyScale (Li et al., SC '23), figure 2.",
        run_ids=ids,
        figure=figure,
        table=Table(
            ["way", "runs", "different models", "same bits as", "final accuracy, %",
             "spread, points", "largest after epoch 1", "largest batch"],
            [
                *(_row(way, own, same_bits(own, ways)) for way, own in ways.items()),
                *(_seeds_row(name, own) for name, own in over_seeds(models).items()),
            ],
        ),
    )  # fmt: skip


def _row(way: str, own: Sequence[Trained], same: str) -> list[str]:
    finals = [100 * model.accuracy for model in own]
    batches = sorted({model.largest_batch for model in own})
    return [
        way,
        str(len(own)),
        str(models_of_a_seed(own)),
        same,
        f"{min(finals):.1f} to {max(finals):.1f}",
        f"{100 * spread(own, None):.1f}",
        f"{100 * largest_spread(own):.1f}",
        f"{batches[0]}" if len(batches) == 1 else f"{batches[0]} to {batches[-1]}",
    ]


def _seeds_row(name: str, own: Sequence[Trained]) -> list[str]:
    """Return a row with the effect of the seed alone, for comparison with other differences."""
    alike = [replace(model, seed=0) for model in own]
    row = _row(f"{name}: over seeds", alike, "")
    return [*row[:2], "", *row[3:]]


FIGURE = Declared(draw)
