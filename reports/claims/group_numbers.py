"""Numbers of several runs together for criteria: how much trained models differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from reports.measures.accuracy import Trained, models_of_a_seed, trained
from reports.measures.model_spread import (
    largest_spread,
    ordered_by_gamma,
    same_before_decay,
    spread,
)
from reports.runs.selection import ReportRun

Number = Callable[[Sequence[ReportRun]], float | None]


def _of_models(number: Callable[[Sequence[Trained]], float]) -> Number:
    """Return a function that computes ``number`` of the runs' models; None for fewer than two."""

    def found(runs: Sequence[ReportRun]) -> float | None:
        models = trained(runs)
        return number(models) if len(models) > 1 else None

    return found


def _overall(models: Sequence[Trained]) -> float:
    return 100 * spread(models, None)


def _of_classes(models: Sequence[Trained]) -> list[float]:
    labels = sorted({label for model in models for label in model.by_class})
    return [100 * spread(models, label) for label in labels]


GROUP_NUMBERS: Mapping[str, Number] = {
    "different_models": _of_models(lambda own: float(models_of_a_seed(own))),
    "accuracy_spread_points": _of_models(_overall),
    "accuracy_spread_after_an_epoch_points": _of_models(lambda own: 100 * largest_spread(own)),
    "class_accuracy_spread_mean_points": _of_models(lambda own: fmean(_of_classes(own))),
    "class_accuracy_spread_most_points": _of_models(lambda own: max(_of_classes(own))),
    "class_spread_most_less_overall_points": _of_models(
        lambda own: max(_of_classes(own)) - _overall(own)
    ),
    "losses_same_before_decay": _of_models(lambda own: float(same_before_decay(own))),
    "losses_ordered_by_gamma": _of_models(lambda own: float(ordered_by_gamma(own))),
}
"""Functions by the name that criteria use; points are percentage points of held-out accuracy."""
