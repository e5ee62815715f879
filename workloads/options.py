"""Checks of the options that all workloads share; every problem is reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workloads.training import Recipe


@dataclass(frozen=True, slots=True)
class Overrides:
    """Changes of a workload's recipe and evaluation by a configuration; None: the value of the
    size."""

    learning_rate: float | None = None
    warmup_steps: int | None = None
    evaluation_samples: int | None = None
    gamma: float | None = None
    decay_epochs: float | None = None

    def applied_to(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the overrides applied."""
        if self.learning_rate is not None:
            recipe = replace(recipe, learning_rate=self.learning_rate)
        if self.warmup_steps is not None:
            recipe = replace(recipe, warmup_steps=self.warmup_steps)
        if self.gamma is not None and self.decay_epochs is not None:
            recipe = replace(recipe, gamma=self.gamma, decay_epochs=self.decay_epochs)
        return recipe


def check_options(
    *,
    size: str,
    sizes: Sequence[str],
    data: str,
    needs_root: Mapping[str, bool],
    root: str | None,
    overrides: Overrides,
    problems: Sequence[str] = (),
) -> None:
    """Refuse a combination of options that cannot work.

    Args:
        size: the requested size.
        sizes: the known sizes.
        data: the requested data set.
        needs_root: names of the data sets, and whether each reads files below ``root``.
        root: folder of the files, if given.
        overrides: the requested numbers.
        problems: problems that the workload has found, to be reported with the others.

    Raises:
        ValueError: one line for each problem, with the known or allowed values.
    """
    problems = list(problems)
    if size not in sizes:
        problems.append(f"unknown size {size!r}; known: {', '.join(sizes)}")
    if data not in needs_root:
        problems.append(f"unknown data {data!r}; known: {', '.join(sorted(needs_root))}")
    elif needs_root[data] and root is None:
        problems.append(f"data {data!r} reads files, but root is not set; set root to their folder")
    elif not needs_root[data] and root is not None:
        with_files = ", ".join(sorted(name for name, needs in needs_root.items() if needs))
        problems.append(
            f"root is {root!r}, but data {data!r} reads no files; remove root, or choose data"
            f" from: {with_files or 'none here'}"
        )
    rate = overrides.learning_rate
    if rate is not None and not 0 < rate < float("inf"):
        problems.append(f"learning_rate is {rate}; it must be finite and > 0")
    if overrides.warmup_steps is not None and overrides.warmup_steps < 0:
        problems.append(f"warmup_steps is {overrides.warmup_steps}; use 0 for no warm-up")
    if overrides.evaluation_samples is not None and overrides.evaluation_samples < 1:
        problems.append(
            f"evaluation_samples is {overrides.evaluation_samples}; give at least 1, or leave"
            " it out for all held-out samples"
        )
    gamma, decay_epochs = overrides.gamma, overrides.decay_epochs
    if (gamma is None) != (decay_epochs is None):
        problems.append(
            f"gamma is {gamma} and decay_epochs is {decay_epochs}; give both, or neither for a"
            " learning rate that does not decay"
        )
    if gamma is not None and not 0 < gamma <= 1:
        problems.append(f"gamma is {gamma}; it must be above 0 and at most 1")
    if decay_epochs is not None and not 0 < decay_epochs < float("inf"):
        problems.append(f"decay_epochs is {decay_epochs}; it must be finite and > 0")
    if problems:
        raise ValueError("\n".join(problems))
