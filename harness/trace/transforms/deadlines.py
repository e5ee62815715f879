"""Transform that assigns deadlines."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.contracts.job import DeadlineKind
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.trace import Trace, TraceError
from harness.trace.transforms.work import durations_missing


@dataclass(frozen=True)
class AssignDeadlines:
    """Deadline = arrival + lambda x duration, with lambda ~ U[lambda_min, lambda_max].

    Only a ``share`` of the jobs, drawn at random, gets a deadline. The others lose any deadline
    they had. Every job draws both numbers (stream ``trace.AssignDeadlines``), so that a larger
    share keeps the deadlines of a smaller one.

    Source: ElasticFlow, ASPLOS 2023, section 6.1: lambda from U[0.5, 1.5]. A deadline with lambda
    below 1 can be met only with more slots than the job asked for.
    """

    lambda_min: float = 0.5
    lambda_max: float = 1.5
    kind: DeadlineKind = DeadlineKind.HARD
    share: float = 1.0

    def __post_init__(self) -> None:
        check(
            positive("lambda_min", self.lambda_min),
            not self.lambda_min <= self.lambda_max < float("inf")
            and f"lambda_max {self.lambda_max} is below lambda_min {self.lambda_min} or not"
            " finite; correct them",
            not 0 <= self.share <= 1 and f"share is {self.share}; it must be in [0, 1]",
            self.kind is DeadlineKind.NONE
            and "kind is 'none'; give hard or soft, or leave the transform out",
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with new deadlines.

        Raises:
            TraceError: jobs have no duration; the error names all of them.
        """
        if missing := durations_missing("AssignDeadlines", trace):
            raise TraceError(missing)
        rng = context.rng("trace.AssignDeadlines")
        draws = rng.random((len(trace.jobs), 2)).tolist()
        width = self.lambda_max - self.lambda_min
        jobs = []
        for job, (chance, place) in zip(trace.jobs, draws, strict=True):
            if chance < self.share:
                slack_s = (self.lambda_min + width * place) * (job.duration_s or 0.0)
                deadline_s = job.arrival_s + slack_s
                jobs.append(replace(job, deadline_s=deadline_s, deadline_kind=self.kind))
            else:
                jobs.append(replace(job, deadline_s=None, deadline_kind=DeadlineKind.NONE))
        count = sum(job.deadline_s is not None for job in jobs)
        note = (
            f"AssignDeadlines: {count} of {len(jobs)} jobs, {self.kind.value}, arrival + lambda x"
            f" duration, lambda in [{self.lambda_min:.10g}, {self.lambda_max:.10g}],"
            f" seed {context.seed}"
        )
        return trace.step(note, jobs, generated=["deadline_s"])
