"""Small traces and files for the tests of traces."""

from __future__ import annotations

from dataclasses import replace

from harness.contracts.job import DeadlineKind, JobSpec
from harness.trace.model.trace import Trace

ITP_HEADER = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
PHILLY_HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def write(folder, text, name="jobs.csv"):
    """A file with this text; line ends are kept as they are."""
    path = folder / name
    path.write_bytes(text.encode())
    return path


def job(number, arrival_s, *, slots=1, duration_s=100.0, deadline_s=None, **changes):
    """A job with usual values."""
    spec = JobSpec(
        job_id=f"{number:03d}",
        arrival_s=arrival_s,
        workload="resnet50",
        requested_slots=slots,
        work_samples=1000.0,
        global_batch=32,
        deadline_s=deadline_s,
        deadline_kind=DeadlineKind.NONE if deadline_s is None else DeadlineKind.HARD,
        duration_s=duration_s,
    )
    return replace(spec, **changes)


def trace(*jobs):
    """A trace of these jobs."""
    return Trace(name="example", jobs=jobs, source="made for a test", licence="none")
