"""Notes of live jobs' workers about their coordination, made into facts of the run.

``coordination-WORKER.jsonl`` in a job's folder has one line, which a worker writes when it leaves
in order. ``generation`` and ``num_founders`` (0 for a worker that joined later) identify the
founding of the job to which the worker belongs. ``began`` and ``knew`` are the times when its
election began and when it first knew the leader. ``leader`` is the leader's address.
``num_messages`` and ``num_bytes`` count the messages between it and the leader that it handled,
both as a worker and as the leader. ``timed`` has, for the latest of them, the time of sending and
the microseconds until it was handled. Times are on the driver's clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from harness.engines.live.consumed_samples import read_lines
from harness.results.records import StepRecord

Notes: TypeAlias = Mapping[str, Any]
"""Line of one worker."""


def read_notes(job_dir: Path) -> list[Notes]:
    """Return the lines of one job's workers."""
    return [
        line for path in sorted(job_dir.glob("coordination-*.jsonl")) for line in read_lines(path)
    ]


def coordination_facts(jobs: Iterable[tuple[Sequence[Notes], float, float]]) -> dict[str, float]:
    """Return facts of a run; empty if no worker left a note.

    ``messages`` and ``message_bytes`` cover all messages that were handled. ``messages_timed`` and
    ``message_latency_{mean,median,p95}_us`` cover messages that were sent and handled while their
    job trained.

    ``elections`` counts the foundings of jobs from which every founder left a note.
    ``election_mean_ms`` is their mean time from the last founder's begin of the election until all
    founders knew the leader. ``election_slowest_worker_ms`` is the longest time that one founder
    did not know the leader. ``leaders_at_founding_max`` is the largest number of leaders that the
    founders of one founding knew; it should be 1.

    Args:
        jobs: for each job its notes, and the times from when until when it trained.
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
    """Return the times at which a job's first step and its last step ended.

    The first step is left out of the period, since it warms up.

    Args:
        steps: steps of the job, in the order they were made.
        started: start of the run, on the clock of the returned times.
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
    """Return the founders of each start of a job where all of them left notes and knew a leader."""
    found: dict[int, list[Notes]] = defaultdict(list)
    for each in notes:
        if each["num_founders"] and each["knew"] is not None:
            found[each["generation"]].append(each)
    return [own for own in found.values() if len(own) == own[0]["num_founders"]]


def _election_ms(founders: Sequence[Notes]) -> float:
    began, knew = (max(float(each[name]) for each in founders) for name in ("began", "knew"))
    return max(0.0, 1000.0 * (knew - began))
