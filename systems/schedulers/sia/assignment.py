"""Assignment of configurations to jobs: the integer program of Sia."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from systems.schedulers.common.highs import EXACT, INF, Model
from systems.schedulers.sia.configurations import Configuration


@dataclass(frozen=True, slots=True)
class Row:
    """Job of the program."""

    job_id: str
    values: Mapping[Configuration, float]
    """Value that each configuration adds to the objective, compared with no slots."""


def assign(
    rows: Sequence[Row], totals: Mapping[str, int], gap: float = EXACT
) -> dict[str, Configuration]:
    """Return the configurations of the jobs with the greatest sum of values.

    Each job gets at most one configuration, and no device type gives more than its slots. Jobs with
    the same values are interchangeable, so the program only counts how many of them get each
    configuration; among them, the first in ``rows`` are served. If every job can have its best
    configuration, there is nothing to solve.

    Args:
        rows: the jobs, in order.
        totals: slots of each device type.
        gap: share of the optimum that may be missed.
    """
    alike: dict[tuple[tuple[Configuration, float], ...], list[str]] = defaultdict(list)
    for row in rows:
        gains = tuple((one, value) for one, value in row.values.items() if value > 0.0)
        if gains:
            alike[gains].append(row.job_id)
    wanted = {
        job_id: max(gains, key=itemgetter(1))[0]
        for gains, job_ids in alike.items()
        for job_id in job_ids
    }
    if _fits(wanted.values(), totals):
        return wanted
    model = Model()
    used: dict[str, list[tuple[int, float]]] = {device_type: [] for device_type in totals}
    columns: list[list[int]] = []
    for gains, job_ids in alike.items():
        numbers = [
            model.column(0.0, float(len(job_ids)), cost=value, integer=True) for _, value in gains
        ]
        model.row(0.0, [(number, 1.0) for number in numbers], float(len(job_ids)))
        for number, (one, _) in zip(numbers, gains, strict=True):
            used[one.device_type].append((number, float(one.num_slots)))
        columns.append(numbers)
    for device_type, terms in used.items():
        model.row(-INF, terms, float(totals[device_type]))
    solved = model.maximise(gap, is_small=True)
    found: dict[str, Configuration] = {}
    for (gains, job_ids), numbers in zip(alike.items(), columns, strict=True):
        served = iter(job_ids)
        for number, (one, _) in zip(numbers, gains, strict=True):
            for _ in range(round(solved.values[number])):
                found[next(served)] = one
    return found


def _fits(chosen: Iterable[Configuration], totals: Mapping[str, int]) -> bool:
    left = dict(totals)
    for one in chosen:
        left[one.device_type] -= one.num_slots
    return min(left.values()) >= 0
