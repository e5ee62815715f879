"""Trace with the published statistics of Hu et al.'s ModelArts log; the log itself is private."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.trace.generators.arrivals import spread
from harness.trace.generators.generated import Generated
from harness.trace.generators.times import (
    exponential_below,
    exponential_mean,
    log_normal_above,
    log_normal_mean,
    root,
)
from harness.trace.model.context import check, positive

MIN_S = 60.0
SHORT_MIN = 5.0
"""Shortest training time of the jobs in the paper's baseline set, minutes."""
_LEAST_MIN = 1.0 / MIN_S


@dataclass(frozen=True)
class ModelArts:
    """Jobs with the statistics of Hu et al.'s log: long and short training times over a fixed span.

    Source: Hu et al., section V: 1,252 jobs from 24 January 2021 14:25:41 to 26 January 16:07:19;
    447 of them train for 5 min or more, 232.6 min in the mean; the others' mean, 1.95 min, follows
    from that of all. The shapes are not published and are choices of ours. Long times are
    log-normal above 5 min with ``sigma``, short ones exponential below it, both with those means.
    Arrivals are spread over the span evenly or with a daily swing. Draw several seeds, because
    results differ from seed to seed.

    The log's jobs trained on ``nodes`` nodes each, a number that the paper does not state. Work is
    counted in slot-seconds, since the programs are not known, and a job on n nodes would be n times
    as fast. With ``workload=modelarts`` jobs train at the speeds that the paper states (profiles
    ``modelarts`` and ``modelarts_delay_15s``).
    """

    count: int = 1252
    num_long: int = 447
    span_s: float = 178_898.0
    long_mean_min: float = 232.6
    short_mean_min: float = 1.95
    sigma: float = 1.5
    """Standard deviation of the logarithm of long training times: how heavy their tail is."""
    day_share: float = 0.0
    """Swing of the arrival rate over a day, 0 to 1."""
    nodes: int = 1
    """Nodes of each job in the log, on which the training times were measured."""
    max_slots: int = 16
    """Largest number of nodes of a job (n_max)."""
    keep_short: bool = False
    """True to include the jobs below 5 min (the paper's heterogeneous set)."""
    workload: str = ""
    """Workload of all jobs, with a curve in the run's profile; empty: speed is linear in nodes."""

    def __post_init__(self) -> None:
        check(
            not 2 <= self.num_long <= self.count
            and f"num_long is {self.num_long}; give 2 to count ({self.count})",
            positive("span_s", self.span_s),
            positive("sigma", self.sigma),
            not self.long_mean_min > SHORT_MIN
            and f"long_mean_min is {self.long_mean_min}; it must be above {SHORT_MIN}",
            not 0 < self.short_mean_min < SHORT_MIN / 2
            and f"short_mean_min is {self.short_mean_min}; give more than 0 and less than"
            f" {SHORT_MIN / 2}, or the times below {SHORT_MIN} min would have to pile up there",
            not 0 <= self.day_share <= 1 and f"day_share is {self.day_share}; give 0 to 1",
            not 1 <= self.nodes <= self.max_slots
            and f"nodes is {self.nodes}; give 1 to max_slots ({self.max_slots})",
        )

    def draw(self, rng: np.random.Generator) -> Generated:
        """Draw the jobs; arrivals, training times and their order are random."""
        arrivals = spread(rng, self.count, self.span_s, day_share=self.day_share)
        is_long = rng.permutation(np.arange(self.count) < self.num_long).tolist()
        mu = root(
            lambda mu: log_normal_mean(mu, self.sigma, SHORT_MIN), self.long_mean_min, -40.0, 40.0
        )
        scale = root(
            lambda scale: exponential_mean(scale, SHORT_MIN), self.short_mean_min, 1e-3, 1e3
        )
        rows = []
        for arrival_s, long in zip(arrivals, is_long, strict=True):
            level = float(rng.uniform(0.0, 1.0))
            if long:
                minutes = log_normal_above(level, mu, self.sigma, SHORT_MIN)
            else:
                minutes = max(_LEAST_MIN, exponential_below(level, scale, SHORT_MIN))
            if long or self.keep_short:
                rows.append(
                    {
                        "arrival": round(arrival_s, 3),
                        "slots": self.nodes,
                        "duration": round(MIN_S * minutes, 3),
                        "max_slots": self.max_slots,
                    }
                )
        return Generated(
            rows=rows,
            about="With the published statistics of the ModelArts log of Hu et al., section V.",
            transforms=self._transforms(),
            recorded_on_slots=190,
        )

    def _transforms(self) -> list[dict[str, object]]:
        """Return the transforms that turn training times into work of the workload."""
        if not self.workload:
            return []
        package = "harness.trace.transforms"
        assign: dict[str, object] = {
            "_target_": f"{package}.AssignWorkloads",
            "pool": [self.workload],
        }
        return [assign, {"_target_": f"{package}.RecomputeWork"}]
