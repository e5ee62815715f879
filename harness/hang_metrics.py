"""How well workers that hang are told from busy ones: pure functions of records."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from harness.records import AccusationRecord, FaultRecord, RunRecords


def hangs(records: RunRecords) -> dict[str, float | None]:
    """How well the silence of workers that hang was told from that of busy ones.

    ``false_kills``: accusations of workers that nobody had struck, in runs with faults on
    purpose. ``hang_detection_median_s``: from a SIGSTOP to the kill of the worker. Ours.
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
    """Seconds from a SIGSTOP until the struck worker was killed for its silence, if it was."""
    if fault.signal != "SIGSTOP":
        return None
    kills = [one.at_s for one in accusations if one.worker == fault.worker]
    return min((at_s - fault.at_s for at_s in kills if at_s >= fault.at_s), default=None)


def false_kills(
    faults: Iterable[FaultRecord], accusations: Iterable[AccusationRecord]
) -> list[AccusationRecord]:
    """Accusations of workers that nobody had struck before."""
    struck_s: dict[str, float] = {}
    for fault in faults:
        struck_s.setdefault(fault.worker, fault.at_s)
    return [one for one in accusations if one.at_s < struck_s.get(one.worker, math.inf)]
