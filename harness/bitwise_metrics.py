"""Metric of consistency: are elastic jobs what the same jobs are on fixed workers?"""

from __future__ import annotations

from harness.contracts.engine import JobState
from harness.records import RunRecords


def bitwise_equal(records: RunRecords) -> dict[str, float | None]:
    """1 if every job ended with the parameters, buffers and optimizer state of its fixed-size
    reference, bit for bit, after steps with the same losses, else 0 [EasyScale, section 5.1.1].
    A job that failed makes it 0. Absent where that was not checked (``engine.check_reference``)
    or no job finished.
    """
    if not records.fixed_size:
        return {}
    equal = {row.job_id for row in records.fixed_size if row.is_equal}
    held = [job.job_id for job in records.jobs if job.state in (JobState.FINISHED, JobState.FAILED)]
    return {"bitwise_equal": float(all(job_id in equal for job_id in held))}
