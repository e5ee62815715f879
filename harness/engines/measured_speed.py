"""How fast a live run trained, held to what the run's profile says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from harness.profiles import RECORDED, Profile, ProfileError
from harness.records import StepRecord
from harness.step_periods import step_periods
from harness.trace.job import JobSpec


def speed_over_profile(
    profile: Profile, jobs: Iterable[JobSpec], steps_of: Mapping[str, Sequence[StepRecord]]
) -> float | None:
    """Time that the profile gives the steps of all jobs, over the time that they took.

    Below 1 the machine was slower than when the profile was measured, or than the devices that
    it was measured on. The first steps after every change are left out, as where a profile is
    measured. None: nothing can be compared.
    """
    expected_s, measured_s = [], []
    for job in jobs:
        steps = steps_of.get(job.job_id, ())
        batches = {step.global_batch for step in steps}
        if job.workload == RECORDED or len(batches) != 1:
            continue
        (batch,) = batches
        try:
            curve = profile.throughput(job.workload, batch)
        except ProfileError:
            continue
        for num_workers, periods in step_periods(steps).items():
            speed = curve.samples_per_s(num_workers)
            if speed > 0:
                expected_s.append(len(periods) * batch / speed)
                measured_s.append(math.fsum(periods))
    return math.fsum(expected_s) / math.fsum(measured_s) if any(measured_s) else None
