"""Transforms that draw similar traces, for intervals over traces.

A trace is one sample of all possible submissions. Resampling its users or shaking its arrivals with
several seeds shows how much a result depends on that sample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.contracts.job import JobSpec
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.trace import Trace, TraceError
from harness.trace.transforms.arrivals import from_zero, moved

DAY_S = 86400.0


@dataclass(frozen=True)
class ResampleOwners:
    """Trace of as many owners, drawn with replacement, with all jobs of each drawn owner.

    The jobs of one owner depend on each other: drawing single jobs would lose their sessions and
    repetitions. The first copy of an owner keeps its times. With ``shift_days`` every further copy
    is moved by whole days, drawn evenly over the trace's span and wrapped round its end. Copies
    then keep their hours of the day, and rarely coincide.

    Source: resampling users as in Zakay and Feitelson, "Workload resampling for performance
    evaluation of parallel job schedulers", 2014.
    """

    shift_days: bool = True

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the jobs of the drawn owners; copies of a job get new ids.

        Raises:
            TraceError: the jobs have fewer than two owners.
        """
        of: dict[str, list[JobSpec]] = defaultdict(list)
        for job in trace.jobs:
            of[job.owner].append(job)
        owners = sorted(of)
        if len(owners) < 2:
            raise TraceError(
                [
                    f"ResampleOwners: all jobs of {trace.name} belong to {owners[0]!r}; name the"
                    " column of the owner in the reader, or leave the transform out"
                ]
            )
        rng = context.rng("trace.ResampleOwners")
        num_days = max(1, int(trace.span_s // DAY_S) + 1)
        copies: dict[str, int] = defaultdict(int)
        jobs: list[JobSpec] = []
        for index, day in zip(
            rng.integers(len(owners), size=len(owners)).tolist(),
            rng.integers(num_days, size=len(owners)).tolist(),
            strict=True,
        ):
            owner = owners[index]
            shift_s = day * DAY_S if self.shift_days and copies[owner] else 0.0
            jobs += _copied(of[owner], copies[owner], shift_s, num_days * DAY_S)
            copies[owner] += 1
        note = (
            f"ResampleOwners: {len(copies)} of {len(owners)} owners, with replacement:"
            f" {len(jobs)} jobs, seed {context.seed}"
        )
        return trace.step(note, from_zero(sorted(jobs, key=lambda job: job.order)))


@dataclass(frozen=True)
class ShakeArrivals:
    """Noise of mean size ``scale_s`` added to every arrival, forwards or back.

    The noise follows Laplace's distribution: exponential in both directions. Deadlines move with
    the arrivals.

    Source: input shaking as in Tsafrir, Ouaknine and Feitelson, "Reducing performance evaluation
    sensitivity and variability by input shaking", MASCOTS 2007; the distribution is a choice.
    """

    scale_s: float

    def __post_init__(self) -> None:
        check(positive("scale_s", self.scale_s))

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with shaken arrivals; the first arrives at 0."""
        noise = context.rng("trace.ShakeArrivals").laplace(0.0, self.scale_s, len(trace.jobs))
        shaken = [
            (job.arrival_s + move_s, job)
            for job, move_s in zip(trace.jobs, noise.tolist(), strict=True)
        ]
        first_s = min(at_s for at_s, _ in shaken)
        note = f"ShakeArrivals: by {self.scale_s:.10g} s in the mean, seed {context.seed}"
        return trace.step(note, (moved(job, at_s - first_s) for at_s, job in shaken))


@dataclass(frozen=True)
class ShuffleArrivals:
    """Random permutation of the arrivals among the jobs; the total work stays.

    It suits traces whose jobs do not depend on each other, such as drawn ones. Jobs and arrivals
    stay; only the pairing between them is drawn.
    """

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs in another order; deadlines move with the arrivals."""
        dealt = context.rng("trace.ShuffleArrivals").permutation(len(trace.jobs)).tolist()
        jobs = [
            moved(trace.jobs[which], job.arrival_s)
            for which, job in zip(dealt, trace.jobs, strict=True)
        ]
        note = f"ShuffleArrivals: of {len(jobs)} jobs, seed {context.seed}"
        return trace.step(note, sorted(jobs, key=lambda job: job.order))


def _copied(
    jobs: Sequence[JobSpec], number: int, shift_s: float, cycle_s: float
) -> Iterator[JobSpec]:
    """Yield an owner's jobs as copy ``number``, with new ids and times (0: the originals)."""
    for job in jobs:
        if number == 0:
            yield job
            continue
        at_s = (job.arrival_s + shift_s) % cycle_s
        yield moved(replace(job, job_id=f"{job.job_id}~{number + 1}"), at_s)
