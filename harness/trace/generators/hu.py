"""A trace with the published statistics of Hu et al.'s ModelArts log, which is private."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from harness.trace.generators.arrivals import spread
from harness.trace.generators.generated import Generated
from harness.trace.transforms.context import check, positive

MIN_S = 60.0
SHORT_MIN = 5.0
"""Jobs that train for less are not in the paper's baseline set."""
_NORMAL = NormalDist()


@dataclass(frozen=True)
class ModelArts:
    """So many jobs over so long, with two kinds of training times.

    Source: Hu et al., section V: 1,252 jobs from 24 January 2021 14:25:41 to 26 January 16:07:19;
    447 of them train for 5 min or more, 232.6 min in the mean; the others' mean, 1.95 min,
    follows from that of all. The shapes are not published: long times are log-normal above 5 min
    with ``sigma``, short ones exponential below it, both with those means; arrivals are spread
    over the span evenly or with a daily swing. Draw several seeds: one alone proves nothing.

    The log's jobs trained on ``nodes`` nodes each, which the paper does not say. Work is counted in
    slot-seconds, since the programs are not known, and a job on n nodes would be n times as fast.
    With ``workload=modelarts`` it is trained at the speeds that the paper states (profiles
    ``modelarts`` and ``modelarts_delay_15s``).
    """

    count: int = 1252
    num_long: int = 447
    span_s: float = 178_898.0
    long_mean_min: float = 232.6
    short_mean_min: float = 1.95
    sigma: float = 1.5
    """Of the logarithm of long training times: how heavy their tail is."""
    day_share: float = 0.0
    """How much arrivals swing over a day, 0 to 1."""
    nodes: int = 1
    """On which the log's jobs trained for their times."""
    max_slots: int = 16
    """Most nodes of a job (n_max)."""
    keep_short: bool = False
    """Also the jobs below 5 min (the paper's heterogeneous set)."""
    workload: str = ""
    """Curve of the run's profile that all jobs have; empty: none, as many times faster as nodes."""

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
        """The jobs; arrivals, training times and their order are drawn."""
        arrivals = spread(rng, self.count, self.span_s, day_share=self.day_share)
        is_long = rng.permutation(np.arange(self.count) < self.num_long).tolist()
        mu = self._mu()
        scale = _root(_short_mean, self.short_mean_min, 1e-3, 1e3)
        rows = []
        for arrival_s, long in zip(arrivals, is_long, strict=True):
            minutes = _long_time(rng, mu, self.sigma) if long else _short_time(rng, scale)
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
        """What turns training times into work of the workload."""
        if not self.workload:
            return []
        package = "harness.trace.transforms"
        assign: dict[str, object] = {
            "_target_": f"{package}.AssignWorkloads",
            "pool": [self.workload],
        }
        return [assign, {"_target_": f"{package}.RecomputeWork"}]

    def _mu(self) -> float:
        """Mean of the logarithm that gives long times their mean."""
        return _root(lambda mu: _long_mean(mu, self.sigma), self.long_mean_min, -40.0, 40.0)


def _long_mean(mu: float, sigma: float) -> float:
    """Mean of a log-normal time given that it is above ``SHORT_MIN``."""
    z = (math.log(SHORT_MIN) - mu) / sigma
    above, shifted = _NORMAL.cdf(-z), _NORMAL.cdf(sigma - z)
    return math.exp(mu + sigma**2 / 2) * shifted / above if above > 0 and shifted > 0 else SHORT_MIN


def _long_time(rng: np.random.Generator, mu: float, sigma: float) -> float:
    below = _NORMAL.cdf((math.log(SHORT_MIN) - mu) / sigma)
    level = below + (1.0 - below) * float(rng.uniform(0.0, 1.0))
    return math.exp(mu + sigma * _NORMAL.inv_cdf(min(max(level, 1e-12), 1.0 - 1e-12)))


def _short_mean(scale: float) -> float:
    """Mean of an exponential time given that it is below ``SHORT_MIN``."""
    return scale - SHORT_MIN / math.expm1(SHORT_MIN / scale) if SHORT_MIN / scale < 700 else scale


def _short_time(rng: np.random.Generator, scale: float) -> float:
    most = -math.expm1(-SHORT_MIN / scale)
    return max(1.0 / MIN_S, -scale * math.log1p(-most * float(rng.uniform(0.0, 1.0))))


def _root(function: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Where a growing function has this value, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < value else (low, middle)
    return (low + high) / 2
