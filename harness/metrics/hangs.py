"""Metrics of how well a backend distinguishes hanging workers from busy ones.

All are pure functions of records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from harness.results.records import AccusationRecord, FaultRecord, RunRecords


def hangs(records: RunRecords) -> dict[str, float | None]:
    """Return how well hanging workers were distinguished from busy workers.

    ``false_kills``: accusations of workers that had not been struck, in runs with fault injection.
    ``hang_detection_median_s``: from a SIGSTOP to the kill of the worker. Ours.
    """
    if "stress_processes" not in records.facts:  # such runs record no accusations
        return {}
    found = [detection_s(fault, records.accusations) for fault in records.faults]
    known = np.array([one for one in found if one is not None], dtype=np.float64)
    return {
        "false_kills": len(false_kills(records.faults, records.accusations)),
        "hang_detection_median_s": float(np.median(known)) if known.size else None,
    }


def detection_s(fault: FaultRecord, accusations: Iterable[AccusationRecord]) -> float | None:
    """Return the seconds from a SIGSTOP until the worker was killed as hung; None: it was not."""
    if fault.signal != "SIGSTOP":
        return None
    kills = [one.at_s for one in accusations if one.worker == fault.worker]
    return min((at_s - fault.at_s for at_s in kills if at_s >= fault.at_s), default=None)


def false_kills(
    faults: Iterable[FaultRecord], accusations: Iterable[AccusationRecord]
) -> list[AccusationRecord]:
    """Return the accusations of workers that had not been struck before."""
    struck_s: dict[str, float] = {}
    for fault in faults:
        struck_s.setdefault(fault.worker, fault.at_s)
    return [one for one in accusations if one.at_s < struck_s.get(one.worker, math.inf)]
