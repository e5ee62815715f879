"""Metrics of the accuracy on held-out samples of jobs that were trained to their end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from harness.contracts.job_state import JobState
from harness.results.records import RunRecords

_OF_A_CLASS = "accuracy_class_"


def accuracy(records: RunRecords) -> dict[str, float | None]:
    """Return means over the finished jobs whose workload reports the accuracy of every class.

    ``accuracy_mean``: held-out accuracy at the end. ``accuracy_class_spread_mean``: the best
    class's accuracy minus the worst class's, of one job. Absent if steps were credited and not
    executed, because such a model has not been trained to its end.
    """
    finals = final_accuracies(records)
    if records.facts.get("steps_credited", 0.0) or not finals:
        return {}
    return {
        "accuracy_mean": fmean(found["accuracy"] for found in finals.values()),
        "accuracy_class_spread_mean": fmean(map(class_spread, finals.values())),
    }


def final_accuracies(records: RunRecords) -> dict[str, dict[str, float]]:
    """Return ``accuracy`` and ``accuracy_class_LABEL`` at the end of every finished job that has
    both."""
    finished = {job.job_id for job in records.jobs if job.state == JobState.FINISHED}
    last: dict[str, int] = {}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for result in records.evaluations:
        if result.job_id not in finished or not result.name.startswith("accuracy"):
            continue
        if result.step > last.get(result.job_id, -1):
            found[result.job_id] = {}
            last[result.job_id] = result.step
        found[result.job_id][result.name] = float(result.value)
    return {job: each for job, each in found.items() if "accuracy" in each and classes(each)}


def classes(accuracies: Mapping[str, float]) -> dict[int, float]:
    """Return the accuracy by label, from the entry of one job in ``final_accuracies``."""
    return {
        int(name.removeprefix(_OF_A_CLASS)): value
        for name, value in sorted(accuracies.items())
        if name.startswith(_OF_A_CLASS)
    }


def class_spread(accuracies: Mapping[str, float]) -> float:
    """Return the best class's accuracy minus the worst class's."""
    by_class = classes(accuracies).values()
    return max(by_class) - min(by_class)
