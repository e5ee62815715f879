"""Transform of the work that schedulers see: wrong estimates, bugs, stops by owners."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.contracts.job import JobSpec
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.trace import Trace, TraceError
from harness.trace.transforms.work import durations_missing


@dataclass(frozen=True)
class UncertainWork:
    """Wrong statements of work for schedulers: each job draws one of four fates, with these shares.

    ``disturbed``: the stated work is the true work times a number drawn evenly from 1 - ``error``
    to 1 + ``error``. ``bugs``: the job ends after a time drawn evenly from 0 to ``bug_within_s``,
    counted on its requested slots; the stated work is that of the healthy job. ``terminated``: its
    owner ends it at an evenly drawn point of its work; the stated work is all of it. The work of
    all other jobs is stated correctly. Jobs that end early give back their slots and count as
    finished.

    Source: Hu et al., section 5.4 (``disturbed`` 1 in Fig. 13; 0.75, 0.15 and 0.1 in Fig. 14; error
    0.1, bugs within 300 s). Two choices are ours. A bug happens at a step and not at a time, so it
    comes sooner on more slots than requested. A job has only one fate.
    """

    disturbed: float = 1.0
    bugs: float = 0.0
    terminated: float = 0.0
    error: float = 0.1
    bug_within_s: float = 300.0

    def __post_init__(self) -> None:
        shares = {"disturbed": self.disturbed, "bugs": self.bugs, "terminated": self.terminated}
        check(
            *(
                not 0 <= share <= 1 and f"{name} is {share}; it must lie in [0, 1]"
                for name, share in shares.items()
            ),
            sum(shares.values()) > 1 + 1e-9
            and f"disturbed, bugs and terminated sum to {sum(shares.values()):.10g}; a job has one"
            " fate: give shares of 1 at most",
            not 0 <= self.error < 1 and f"error is {self.error}; it must lie in [0, 1)",
            positive("bug_within_s", self.bug_within_s),
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs, with their true and their stated work.

        Raises:
            TraceError: ``bugs`` is above 0, but the duration of a job is unknown.
        """
        problems = durations_missing("UncertainWork", trace) if self.bugs else []
        if problems:
            raise TraceError(problems)
        drawn = context.rng("trace.UncertainWork").random((len(trace.jobs), 2))
        # Above 0: a job must have some work before it ends.
        jobs = [
            self._fate(job, chance, max(1e-6, level))
            for job, (chance, level) in zip(trace.jobs, drawn.tolist(), strict=True)
        ]
        note = (
            f"UncertainWork: {self.disturbed:.10g} of the jobs stated {self.error:.10g} wrong at"
            f" most, {self.bugs:.10g} with a bug within {self.bug_within_s:.10g} s,"
            f" {self.terminated:.10g} ended by their owners, seed {context.seed}"
        )
        ends_early = ["work_samples", "duration_s"] if self.bugs or self.terminated else []
        return trace.step(note, jobs, generated=["stated_work_ratio", *ends_early])

    def _fate(self, job: JobSpec, chance: float, level: float) -> JobSpec:
        """Return the job with the fate that ``chance`` selects; ``level`` sets how strong it is."""
        if chance < self.disturbed:
            factor = 1.0 + self.error * (2.0 * level - 1.0)
            return replace(job, stated_work_ratio=job.stated_work_ratio * factor)
        if chance < self.disturbed + self.bugs:
            return _cut(job, min(1.0, level * self.bug_within_s / (job.duration_s or 1.0)))
        if chance < self.disturbed + self.bugs + self.terminated:
            return _cut(job, level)
        return job


def _cut(job: JobSpec, part: float) -> JobSpec:
    """Return the job with this part of its work, while its stated work stays the same."""
    return replace(
        job,
        work_samples=job.work_samples * part,
        duration_s=None if job.duration_s is None else job.duration_s * part,
        stated_work_ratio=job.stated_work_ratio / part,
    )
