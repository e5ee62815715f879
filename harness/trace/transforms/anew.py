"""Transform that draws a new trace with the statistics of the given trace.

``ShuffleArrivals`` keeps the jobs and permutes their arrivals. This transform draws both jobs and
arrivals, and keeps only the stated statistics. Several seeds therefore give an ensemble of traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from harness.contracts.job import JobSpec
from harness.trace.generators.arrivals import spread
from harness.trace.generators.times import (
    exponential_below,
    exponential_mean,
    log_normal_above,
    root,
)
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.trace import Trace, TraceError
from harness.trace.transforms.work import durations_missing

_LEAST_S = 1e-3
"""Shortest drawn time, and the unit to which all are rounded, seconds. Machines may differ in the
last digits of a logarithm; rounding to a millisecond hides that."""
_LONGEST = 100.0
"""Upper bound of the search: logarithm of a median, in seconds, that no real trace reaches."""


@dataclass(frozen=True)
class DrawAnew:
    """Newly drawn trace of as many jobs over the same span, in two kinds split at ``split_s``
    seconds.

    Arrivals are drawn over the span. The number of long jobs (``split_s`` or more) stays; which
    jobs are long is drawn independently of the arrivals. Each job draws an old job of its kind,
    with replacement. It copies that job's slots, range, program and owner, so that these keep their
    dependence on each other and on the kind. Each job also draws a training time, and its work
    changes in proportion. Long times are log-normal above ``split_s``, scaled so that the mean of
    the drawn times equals the old mean; their total therefore does not depend on the seed. Short
    times are exponential below ``split_s``, with the old mean in expectation.

    Source: Hu et al., section 5.1, state the statistics of their log that are kept here: the number
    of jobs, the number of those of 5 min or more, the means of both kinds, and the span. Shapes and
    dependences are not published and are choices of ours. ``sigma`` belongs to the logarithm of
    long times, ``day_share`` is how much arrivals swing over a day (0 to 1), and times are
    independent of arrivals.
    """

    split_s: float = 300.0
    sigma: float = 1.5
    day_share: float = 0.0

    def __post_init__(self) -> None:
        check(
            positive("split_s", self.split_s),
            positive("sigma", self.sigma),
            not 0 <= self.day_share <= 1 and f"day_share is {self.day_share}; give 0 to 1",
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the drawn jobs; their ids are numbers in order of arrival.

        Raises:
            TraceError: a duration is unknown, jobs have deadlines, all jobs arrive at once, or the
                short times are too long for the distribution.
        """
        problems = durations_missing("DrawAnew", trace) or self._problems(trace)
        if problems:
            raise TraceError(problems)
        count = len(trace.jobs)
        long = [job for job in trace.jobs if (job.duration_s or 0.0) >= self.split_s]
        short = [job for job in trace.jobs if (job.duration_s or 0.0) < self.split_s]
        rng = context.rng("trace.DrawAnew")
        arrivals = spread(rng, count, trace.span_s, day_share=self.day_share)
        places = rng.permutation(count).tolist()
        drawn = [*self._drawn(rng, long, is_long=True), *self._drawn(rng, short, is_long=False)]
        width = len(str(count - 1))
        jobs = [
            replace(drawn[place], job_id=f"{number:0{width}d}", arrival_s=round(arrival_s, 3))
            for number, (place, arrival_s) in enumerate(zip(places, arrivals, strict=True))
        ]
        means = [f"{len(kind)} of {_mean_s(kind):.6g} s" for kind in (long, short) if kind]
        note = (
            f"DrawAnew: {count} jobs ({' and '.join(means)} in the mean), split at"
            f" {self.split_s:.10g} s, sigma {self.sigma:.10g}, day_share {self.day_share:.10g},"
            f" seed {context.seed}"
        )
        return trace.step(note, jobs, generated=["arrival_s", "duration_s", "work_samples"])

    def _problems(self, trace: Trace) -> list[str]:
        problems = []
        with_deadline = sum(job.deadline_s is not None for job in trace.jobs)
        if with_deadline:
            problems.append(
                f"DrawAnew: {with_deadline} jobs of {trace.name} have deadlines, which the drawn "
                "jobs would lose; remove the deadlines, and put AssignDeadlines after DrawAnew"
            )
        if trace.span_s <= 0:
            problems.append(
                f"DrawAnew: the jobs of {trace.name} all arrive at once, so that there is no span"
                " to draw arrivals over; choose another trace"
            )
        short = [job for job in trace.jobs if (job.duration_s or 0.0) < self.split_s]
        if short and _mean_s(short) >= 0.5 * self.split_s:
            problems.append(
                f"DrawAnew: jobs of {trace.name} below split_s ({self.split_s:.10g} s) take"
                f" {_mean_s(short):.6g} s in the mean, and exponential times less than half of"
                " split_s; give another split_s"
            )
        return problems

    def _drawn(
        self, rng: np.random.Generator, kind: Sequence[JobSpec], *, is_long: bool
    ) -> list[JobSpec]:
        """Draw as many jobs of one kind as the trace has."""
        if not kind:
            return []
        models = [kind[index] for index in rng.integers(len(kind), size=len(kind)).tolist()]
        levels = rng.random(len(kind)).tolist()
        if is_long:
            times_s = [max(self.split_s, round(time_s, 3)) for time_s in self._long_s(levels, kind)]
        else:
            times_s = [max(_LEAST_S, round(time_s, 3)) for time_s in self._short_s(levels, kind)]
        return [
            replace(
                model,
                duration_s=time_s,
                work_samples=model.work_samples * (time_s / (model.duration_s or 1.0)),
            )
            for model, time_s in zip(models, times_s, strict=True)
        ]

    def _long_s(self, levels: Sequence[float], kind: Sequence[JobSpec]) -> list[float]:
        """Return the times at these levels (0 to 1), scaled so that their mean is the kind's."""

        def at(mu: float) -> list[float]:
            return [log_normal_above(level, mu, self.sigma, self.split_s) for level in levels]

        return at(root(lambda mu: fmean(at(mu)), _mean_s(kind), -_LONGEST, _LONGEST))

    def _short_s(self, levels: Sequence[float], kind: Sequence[JobSpec]) -> list[float]:
        """Return the times at these levels (0 to 1) of the distribution with the kind's mean."""
        scale_s = root(
            lambda scale: exponential_mean(scale, self.split_s), _mean_s(kind), 1e-6, 1e6
        )
        return [exponential_below(level, scale_s, self.split_s) for level in levels]


def _mean_s(jobs: Sequence[JobSpec]) -> float:
    return fmean(job.duration_s or 0.0 for job in jobs)
