"""What the workers of live jobs noted of their coordination, made into facts of the run.

``coordination-WORKER.jsonl`` in a job's folder: one line, written by a worker that left in order.
``generation`` and ``num_founders`` (0 for one that joined later) say to which founding of the job
it belongs; ``began`` and ``knew``: when its election began and when it first knew the leader;
``leader``: the address that it was told; ``num_messages`` and ``num_bytes``: messages between it
and the leader that it handled, both as a worker and while it led; ``timed``: of the latest of them,
when each was sent and the microseconds until it was handled. Times are on ``time.monotonic``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from harness.engines.consumed import read_lines
from harness.records import StepRecord

Notes: TypeAlias = Mapping[str, Any]
"""One worker's line."""


def read_notes(job_dir: Path) -> list[Notes]:
    """The lines of one job's workers."""
    return [
        line for path in sorted(job_dir.glob("coordination-*.jsonl")) for line in read_lines(path)
    ]


def coordination_facts(jobs: Iterable[tuple[Sequence[Notes], float, float]]) -> dict[str, float]:
    """Facts of a run; none where no worker noted anything.

    ``messages`` and ``message_bytes``: of all that were handled. ``messages_timed`` and
    ``message_latency_{mean,median,p95}_us``: of those that were sent and handled while their job
    trained. ``elections``: foundings of jobs of which every founder told, and over these
    ``election_mean_ms``: from when the last founder began its election until all knew the leader;
    ``election_slowest_worker_ms``: the longest that one founder did not know it;
    ``leaders_at_founding_max``: leaders that founders were told of, of which there is to be one.

    Args:
        jobs: of each its notes, and from when until when it trained.
    """
    notes: list[Notes] = []
    latencies_us: list[float] = []
    elections: list[Sequence[Notes]] = []
    for own, began, ended in jobs:
        notes += own
        latencies_us += _while_training(own, began, ended)
        elections += _elections(own)
    if not notes:
        return {}
    facts = {
        "messages": float(sum(each["num_messages"] for each in notes)),
        "message_bytes": float(sum(each["num_bytes"] for each in notes)),
        "messages_timed": float(len(latencies_us)),
        "elections": float(len(elections)),
    }
    if latencies_us:
        facts["message_latency_mean_us"] = fmean(latencies_us)
        facts["message_latency_median_us"] = float(np.percentile(latencies_us, 50))
        facts["message_latency_p95_us"] = float(np.percentile(latencies_us, 95))
    if elections:
        facts["election_mean_ms"] = fmean(map(_election_ms, elections))
        facts["election_slowest_worker_ms"] = max(
            1000.0 * (each["knew"] - each["began"]) for founders in elections for each in founders
        )
        facts["leaders_at_founding_max"] = float(
            max(len({each["leader"] for each in founders}) for founders in elections)
        )
    return facts


def training_period(steps: Sequence[StepRecord], started: float) -> tuple[float, float]:
    """From the end of a job's first step, which warms up, to that of its last one.

    Args:
        steps: of the job, in the order they were made.
        started: of the run, on the clock of the result.
    """
    ends = [started + step.started_s + step.duration_s for step in steps]
    return (ends[0], ends[-1]) if ends else (0.0, 0.0)


def _while_training(notes: Sequence[Notes], began: float, ended: float) -> list[float]:
    return [
        latency_us
        for each in notes
        for sent, latency_us in each["timed"]
        if began <= sent and sent + latency_us / 1e6 <= ended
    ]


def _elections(notes: Sequence[Notes]) -> list[Sequence[Notes]]:
    """The founders of each start of a job, where all of them told and knew a leader."""
    found: dict[int, list[Notes]] = defaultdict(list)
    for each in notes:
        if each["num_founders"] and each["knew"] is not None:
            found[each["generation"]].append(each)
    return [own for own in found.values() if len(own) == own[0]["num_founders"]]


def _election_ms(founders: Sequence[Notes]) -> float:
    began, knew = (max(float(each[name]) for each in founders) for name in ("began", "knew"))
    return max(0.0, 1000.0 * (knew - began))
