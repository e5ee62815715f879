"""Differences between the models that runs have trained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np

from reports.measures.accuracy import (
    Trained,
)


def largest_spread(models: Sequence[Trained]) -> float:
    """Return the largest difference of accuracy at one whole epoch between models of one seed.

    The first epoch is left out. Accuracy between two evaluations lies on a straight line.
    """
    found = [0.0]
    for seed in {model.seed for model in models}:
        curves = [np.array(model.curve) for model in models if model.seed == seed]
        last = int(min(curve[-1, 0] for curve in curves))
        for epoch in range(2, last + 1):
            values = [np.interp(epoch, curve[:, 0], curve[:, 1]) for curve in curves]
            found.append(float(max(values) - min(values)))
    return max(found)


def held_out_accuracy(model: Trained, label: int | None) -> float:
    """Return a model's accuracy on held-out samples of one class; of all classes if it is None."""
    return model.accuracy if label is None else model.by_class[label]


def spread(models: Sequence[Trained], label: int | None) -> float:
    """Return the largest minus the smallest accuracy of a class over numbers of workers.

    The class None means all samples. With several seeds the result is the mean over seeds.
    """
    by_seed: dict[int, list[float]] = {}
    for model in models:
        by_seed.setdefault(model.seed, []).append(held_out_accuracy(model, label))
    return fmean(max(values) - min(values) for values in by_seed.values())


def ordered_by_gamma(models: Sequence[Trained]) -> bool:
    """Return whether the final losses only rise, or only fall, with gamma."""
    by_gamma = sorted(models, key=lambda one: one.gamma or 0.0)
    pairs = pairwise(model.losses[-1][1] for model in by_gamma)
    return len({after < before for before, after in pairs if after != before}) <= 1


def same_before_decay(models: Sequence[Trained]) -> bool:
    """Return whether all models have the same mean losses in epochs that end by the first decay."""
    first = min(model.decay_epochs or 0.0 for model in models)
    before = {tuple(point for point in model.losses if point[0] <= first) for model in models}
    return len(before) == 1
