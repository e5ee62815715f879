"""Measured speed of a live run compared with the run's profile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.contracts.job import JobSpec
from harness.metrics.step_periods import step_periods
from harness.profiles import RECORDED, Profile, ProfileError
from harness.results.records import StepRecord


@dataclass(slots=True)
class _Times:
    """Expected and measured seconds of steps."""

    expected_s: list[float] = field(default_factory=list)
    measured_s: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return math.fsum(self.expected_s) / math.fsum(self.measured_s)


def speed_over_profile(
    profile: Profile, jobs: Iterable[JobSpec], steps_of: Mapping[str, Sequence[StepRecord]]
) -> float | None:
    """Return the time that the profile gives the steps of all jobs, over the time that they took.

    Below 1 the machine was slower than at the time of the profile, or than the devices on which it
    was measured. The first steps after every change are left out, as when profiles are measured.
    None: no step can be compared.
    """
    return _overall(_times(profile, jobs, steps_of))


def own_speeds(
    profile: Profile, jobs: Iterable[JobSpec], steps_of: Mapping[str, Sequence[StepRecord]]
) -> Profile | None:
    """Return the profile with the speeds of this run's workers, by workload, batch and slots.

    For settings that the run did not have, the speed is the profile's times ``speed_over_profile``.
    None: no step can be compared, or the profile has several device types, which steps do not
    record.
    """
    times = _times(profile, jobs, steps_of)
    overall = _overall(times)
    if overall is None or profile.device_types:
        return None

    def factor(workload: str, batch: int, num_slots: int) -> float:
        found = times.get((workload, batch, num_slots))
        return found.speed if found is not None else overall

    families = {
        workload: family.times(partial(factor, workload))
        for workload, family in profile.families.items()
    }
    return replace(profile, families=families, shown=None)


def _times(
    profile: Profile, jobs: Iterable[JobSpec], steps_of: Mapping[str, Sequence[StepRecord]]
) -> dict[tuple[str, int, int], _Times]:
    """Return both times of all steps, by workload, global batch and number of workers."""
    found: dict[tuple[str, int, int], _Times] = {}
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
            if speed > 0 and any(periods):
                times = found.setdefault((job.workload, batch, num_workers), _Times())
                times.expected_s.append(len(periods) * batch / speed)
                times.measured_s.append(math.fsum(periods))
    return found


def _overall(times: Mapping[tuple[str, int, int], _Times]) -> float | None:
    if not times:
        return None
    expected_s = math.fsum(second for one in times.values() for second in one.expected_s)
    return expected_s / math.fsum(second for one in times.values() for second in one.measured_s)
