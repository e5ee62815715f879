"""Training loss under different decays of the learning rate (EasyScale, figure 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.panels import panels
from reports.figures.declared import Declared
from reports.measures.accuracy import Trained, by_way, by_workload, named_workers, trained
from reports.measures.model_spread import ordered_by_gamma, same_before_decay
from reports.runs.selection import ReportRun

TITLE = "Training loss under different decays of the learning rate"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each workload: a panel for each way of training, a line per gamma."""
    models = [model for model in trained(runs) if model.gamma is not None and model.losses]
    if not models:
        reason = "No run of the selection trained one job to its end with a decay (gamma)."
        return [Drawing("decay_curves", TITLE, missing=reason)]
    return [
        _chart(number, workload, own, runs)
        for number, (workload, own) in enumerate(by_workload(models).items(), start=1)
    ]


def _chart(
    number: int, workload: str, models: Sequence[Trained], runs: Sequence[ReportRun]
) -> Drawing:
    ways = by_way(models)
    looks = style.Looks(f"gamma {model.gamma}" for model in models)
    figure, axes, lowest = panels(len(ways), 3)
    for axis, (way, own) in zip(axes, ways.items(), strict=True):
        for model in sorted(own, key=lambda one: one.gamma or 0.0):
            epochs, losses = np.array(model.losses).T
            axis.plot(
                epochs, losses, linewidth=1.4, marker="o", markersize=2.5,
                label=f"gamma {model.gamma}, {named_workers(model.workers)}",
                **looks.line(f"gamma {model.gamma}"),
            )  # fmt: skip
            if model.decay_epochs:
                for at in np.arange(model.decay_epochs, epochs[-1], model.decay_epochs):
                    axis.axvline(at, color=style.MUTED, linewidth=0.6, zorder=0)
        axis.set_title(way.replace(": ", ":\n", 1), fontsize=8.5)
        axis.set_yscale("log")
        axis.set_ylabel("training loss (nats)")
        axis.legend(fontsize=style.SMALL_PT)
        axis.label_outer()
    for axis in lowest:
        axis.xaxis.set_tick_params(labelbottom=True)
        axis.set_xlabel("epochs")
    style.plain_log_ticks(axes[0].yaxis)
    ids = [model.run_id for model in models]
    style.put_count_note(figure, [1], [run for run in runs if run.run_id in set(ids)])
    return Drawing(
        name=f"decay_curves-{number}",
        title=f"{TITLE}: {workload}",
        caption="The learning rate is multiplied by gamma at every vertical line; each point is "
        "the mean over an epoch. Equal before: whether all losses are the same until the first "
        "decay, so that later differences come from gamma. Ordered: whether the final losses "
        "only rise, or only fall, with gamma. After EasyScale (Li et al., SC '23), figure 4.",
        run_ids=ids,
        figure=figure,
        table=Table(
            [
                "way",
                "runs",
                "equal before",
                "final losses, by gamma",
                "ordered by gamma",
            ],
            [_row(way, own) for way, own in ways.items()],
        ),
    )


def _row(way: str, own: Sequence[Trained]) -> list[str]:
    by_gamma = sorted(own, key=lambda one: one.gamma or 0.0)
    finals = [model.losses[-1][1] for model in by_gamma]
    return [
        way,
        str(len(own)),
        "yes" if same_before_decay(own) else "no",
        ", ".join(f"{m.gamma}: {loss:.4f}" for m, loss in zip(by_gamma, finals, strict=True)),
        "yes" if ordered_by_gamma(own) else "no",
    ]


FIGURE = Declared(draw)
