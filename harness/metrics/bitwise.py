"""Metric of consistency: do elastic jobs equal the same jobs on fixed workers?"""

from __future__ import annotations

from harness.contracts.job_state import JobState
from harness.results.records import RunRecords


def bitwise_equal(records: RunRecords) -> dict[str, float | None]:
    """Return 1 if every job ended bit for bit like its fixed-size reference, else 0 [EasyScale,
    section 5.1.1].

    Parameters, buffers and optimizer state must be equal at the end, and so must the losses of all
    steps. A job that failed makes the value 0. Absent if the jobs were not checked
    (``engine.check_reference``) or no job finished.
    """
    if not records.fixed_size:
        return {}
    equal = {row.job_id for row in records.fixed_size if row.is_equal}
    held = [job.job_id for job in records.jobs if job.state in (JobState.FINISHED, JobState.FAILED)]
    return {"bitwise_equal": float(all(job_id in equal for job_id in held))}
