"""Transform that draws a whole trace like this one: other jobs, at other moments.

``ShuffleArrivals`` keeps the jobs and deals out their moments. Here both are drawn, and only what
is known of where they come from is kept, so that several seeds are an ensemble of traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from harness.trace.generators.arrivals import spread
from harness.trace.generators.times import (
    exponential_below,
    exponential_mean,
    log_normal_above,
    root,
)
from harness.trace.job import JobSpec
from harness.trace.trace import Trace, TraceError
from harness.trace.transforms.context import TransformContext, check, positive
from harness.trace.transforms.work import durations_missing

_LEAST_S = 1e-3
"""Shortest time that is drawn, and the grain of all: a millisecond, beside which the last digits
of a logarithm, which machines may differ in, do not count."""
_LONGEST = 100.0
"""Logarithm of a median beyond any, seconds."""


@dataclass(frozen=True)
class DrawAnew:
    """As many jobs over the same span, of two kinds: those of ``split_s`` or more, and the others.

    Drawn are: when jobs arrive; which of them are long, as many as there are, with nothing to
    do with when they arrive; of each a model, one of the same kind with replacement, from which it
    has slots, range, program and owner, so that these keep what they have to do with each other
    and with the kind; and its training time, whose work follows in proportion. Long times are
    log-normal above ``split_s``, at the scale at which the mean of those drawn is that of those
    that were there: how much there is to train is no accident of the seed. Short ones are
    exponential below it, with the same mean in expectation.

    Source: Hu et al., section 5.1, state of their log what is kept here: the number of jobs, of
    those of 5 min or more, the means of both, and the span. Shapes and dependences are not
    published and are choices: ``sigma``, of the logarithm of long times; ``day_share``, how much
    arrivals swing over a day, 0 to 1; none between times and arrivals.
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
        """Other jobs; ids are numbers in the order of arrival.

        Raises:
            TraceError: a duration is not known, jobs have deadlines, all arrive at once, or
                short times are too long for what is drawn.
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
                f"DrawAnew: {with_deadline} jobs of {trace.name} have deadlines, which those drawn"
                " would not have; put AssignDeadlines behind it instead"
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
        """As many jobs as there are of one kind."""
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
        """Times at these levels, from 0 to 1, with the mean of the kind."""

        def at(mu: float) -> list[float]:
            return [log_normal_above(level, mu, self.sigma, self.split_s) for level in levels]

        return at(root(lambda mu: fmean(at(mu)), _mean_s(kind), -_LONGEST, _LONGEST))

    def _short_s(self, levels: Sequence[float], kind: Sequence[JobSpec]) -> list[float]:
        """Times at these levels, from 0 to 1, of the distribution with the mean of the kind."""
        scale_s = root(
            lambda scale: exponential_mean(scale, self.split_s), _mean_s(kind), 1e-6, 1e6
        )
        return [exponential_below(level, scale_s, self.split_s) for level in levels]


def _mean_s(jobs: Sequence[JobSpec]) -> float:
    return fmean(job.duration_s or 0.0 for job in jobs)
