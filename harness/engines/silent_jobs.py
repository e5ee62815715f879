"""Live jobs that give no sign of life."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from harness.engines.live_job import LiveJob
from harness.file_names import file_name


class EngineError(Exception):
    """The live engine cannot go on; the text says which job, and where its log is."""


def refuse_silence(jobs: Iterable[LiveJob], limit_s: float, run_dir: Path) -> None:
    """Raise if a job with workers has reported nothing for longer than ``limit_s`` seconds.

    Raises:
        EngineError: the first such job.
    """
    for job in jobs:
        silent_s = time.monotonic() - job.heard_at
        if (job.num_workers or job.in_flight) and silent_s > limit_s:
            raise EngineError(
                f"job {job.spec.job_id} has given no sign of life for {silent_s:.0f} s;"
                f" its logs are in {run_dir / 'jobs' / file_name(job.spec.job_id)}."
                " Raise engine.stall_timeout_s if its steps really are that long."
            )
