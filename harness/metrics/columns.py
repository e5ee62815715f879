"""Fields of many records as arrays, for the formulas of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.contracts.job_state import JobState
from harness.results.records import JobRecord

Floats: TypeAlias = npt.NDArray[np.float64]


def finished(job: JobRecord) -> bool:
    """Return whether the job did all its work."""
    return job.state == JobState.FINISHED


def column(rows: Sequence[Any], name: str) -> Floats:
    """Return one field of every row as floats, None as NaN."""
    return np.array(list(map(attrgetter(name), rows)), dtype=np.float64)


def mean(values: Floats) -> float | None:
    """Return the mean of the values; None if there are none."""
    return float(values.mean()) if values.size else None
