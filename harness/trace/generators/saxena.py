"""Workloads of Saxena et al.: four kinds of jobs, at a high, low or bursty arrival rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from harness.trace.generators.arrivals import poisson
from harness.trace.generators.generated import Generated
from harness.trace.model.context import check, positive

MIN_S = 60.0


@dataclass(frozen=True)
class Category:
    """One kind of job (paper, table I and section V)."""

    workload: str
    min_batch: int
    max_batch: int
    length_min: float
    """Run time on one GPU at the largest batch that fits it, in mixed runs, minutes."""
    slot_batch: int
    """Largest batch that fits one GPU. The paper states it for the first category only. The other
    values assume that the largest global batch fits on 8, 8 and 1 GPUs; that of the first category
    fits on 8."""


CATEGORIES: dict[int, Category] = {
    1: Category("resnet50", 32, 256, 16, 32),
    2: Category("alexnet", 16, 256, 21, 32),
    3: Category("vgg11_bn", 16, 1024, 41, 128),
    4: Category("alexnet_food101", 128, 128, 27, 128),
}


@dataclass(frozen=True)
class Saxena:
    """Poisson arrivals of jobs; the category of a job states its run time on one GPU.

    Source: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020,
    section V. In the paper the high rate is ``k_max`` / E[L] with the mean length E[L], and the low
    rate is a quarter of it. A bursty rate alternates between them, high first. The high rate is a
    load of ``k_max`` slots. If ``load`` is given, the high rate is ``load`` x ``cluster_slots`` /
    E[L] instead.

    A job can be trained with any global batch of its category's range. Its own batch is the largest
    that fits the one GPU it requests.
    """

    rate: Literal["high", "low", "bursty"] = "high"
    categories: Sequence[int] = (1, 2, 3, 4)
    """Categories of the jobs, drawn with equal chance."""
    horizon_min: float = 240.0
    """End of the arrivals, minutes."""
    burst_min: float = 60.0
    """Length of each stretch of ``bursty``."""
    k_max: int = 10
    """Largest number of GPUs of a job."""
    load: float | None = None
    cluster_slots: int = 40
    slot_batch: int | None = None
    """Largest batch that fits one GPU, for all categories; None: each category's."""
    length_min: float | None = None
    """Run time on one GPU, minutes, for all categories (paper: about 30 if there is one category);
    None: each category's."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.categories) - set(CATEGORIES))
        check(
            self.rate not in ("high", "low", "bursty")
            and f"rate is {self.rate!r}; give high, low or bursty",
            not self.categories and "categories is empty; name at least one",
            bool(unknown) and f"categories has {unknown}; known: 1, 2, 3, 4",
            positive("horizon_min", self.horizon_min),
            positive("burst_min", self.burst_min),
            self.k_max < 1 and f"k_max is {self.k_max}; a job needs at least 1 slot",
            self.load is not None and positive("load", self.load),
            self.cluster_slots < 1 and f"cluster_slots is {self.cluster_slots}; give at least 1",
            self.slot_batch is not None
            and self.slot_batch < 1
            and f"slot_batch is {self.slot_batch}; give at least 1",
            self.length_min is not None and positive("length_min", self.length_min),
        )

    def draw(self, rng: np.random.Generator) -> Generated:
        """Draw the jobs; their arrivals and categories are random."""
        kinds = [self._adapted(CATEGORIES[number]) for number in self.categories]
        mean_s = MIN_S * sum(kind.length_min for kind in kinds) / len(kinds)
        slots = float(self.k_max) if self.load is None else self.load * self.cluster_slots
        high = slots / mean_s
        low = high / 4
        burst_s, horizon_s = MIN_S * self.burst_min, MIN_S * self.horizon_min
        stretches = {
            "high": [(horizon_s, high)],
            "low": [(horizon_s, low)],
            "bursty": [(burst_s, high), (burst_s, low)],
        }[self.rate]
        arrivals = poisson(rng, stretches, horizon_s) or [0.0]
        drawn = rng.integers(len(kinds), size=len(arrivals)).tolist()
        used = sorted({kinds[index].workload for index in drawn})
        of = {kind.workload: kind for kind in kinds}
        return Generated(
            rows=[
                {
                    "arrival": round(arrival_s, 3),
                    "slots": 1,
                    "duration": MIN_S * kinds[index].length_min,
                    "workload": kinds[index].workload,
                    "max_slots": self.k_max,
                }
                for arrival_s, index in zip(arrivals, drawn, strict=True)
            ],
            about=f"After Saxena et al. (MASCOTS 2020), section V: {self.rate} arrival rate.",
            transforms=[
                {
                    "_target_": "harness.trace.transforms.AssignBatch",
                    "batch": {
                        name: min(max(of[name].slot_batch, of[name].min_batch), of[name].max_batch)
                        for name in used
                    },
                    "min_global_batch": {name: of[name].min_batch for name in used},
                    "max_global_batch": {name: of[name].max_batch for name in used},
                },
                {"_target_": "harness.trace.transforms.RecomputeWork"},
            ],
            recorded_on_slots=self.cluster_slots,
        )

    def _adapted(self, category: Category) -> Category:
        """Return a category with the options that are set for all categories."""
        return replace(
            category,
            length_min=category.length_min if self.length_min is None else self.length_min,
            slot_batch=category.slot_batch if self.slot_batch is None else self.slot_batch,
        )
