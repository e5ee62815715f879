"""Transform that gives jobs short names."""

from __future__ import annotations

import string
from collections import Counter
from dataclasses import dataclass, replace

from harness.trace.model.context import TransformContext
from harness.trace.model.trace import Trace


@dataclass(frozen=True)
class NameJobs:
    """New job ids: the workload and a letter, such as ``bert-a``, in the order of arrival.

    Of jobs that arrive at the same time, the one with the lesser id comes first, so a new id can
    change that order. Put this transform after ``AssignWorkloads``.
    """

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the same jobs with other ids."""
        seen: Counter[str] = Counter()
        jobs = []
        for job in trace.jobs:
            seen[job.workload] += 1
            job_id = f"{job.workload}-{_letters(seen[job.workload])}"
            jobs.append(replace(job, job_id=job_id))
        return trace.step("NameJobs: ids are the workload and a letter", jobs)


def _letters(number: int) -> str:
    """Return ``a`` for 1, ``z`` for 26, ``aa`` for 27, and so on."""
    letters = ""
    while number > 0:
        number, digit = divmod(number - 1, len(string.ascii_lowercase))
        letters = string.ascii_lowercase[digit] + letters
    return letters
