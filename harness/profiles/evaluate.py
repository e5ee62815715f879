"""Speeds and costs of one measured run, and their medians over trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from harness.contracts.change import ChangeKind
from harness.metrics.step_periods import step_periods
from harness.profiles.costs import RescaleCost
from harness.results.records import ChangeRecord, RunRecords, StepRecord

CostKey = tuple[ChangeKind, int, int]
"""Kind of change, slots before, slots after."""


@dataclass
class ProfileTrial:
    """Speeds and costs measured in one run."""

    step_s: dict[int, float]
    """Mean seconds from the start of one step to that of the next, by number of workers."""
    costs: dict[CostKey, list[RescaleCost]] = field(default_factory=dict)
    across: frozenset[int] = frozenset()
    """Numbers of workers that the run placed on several hosts."""


def evaluate(records: RunRecords, host_of: Sequence[int] = ()) -> ProfileTrial:
    """Return the speeds by size and the cost of every completed change, from a run of one job.

    ``host_of`` is the host of each slot; if it is empty, there is one host.

    The cost of ``stop`` is the time from the end of the last step to the report that the job has
    finished. It covers the evaluation and the end of the workers.
    """
    trial = ProfileTrial(step_times(records.steps))
    trial.across = frozenset(
        len(grant.slots)
        for grant in records.grants
        if host_of and len({host_of[slot] for slot in grant.slots}) > 1
    )
    for change in records.changes:
        if change.outcome == "done" and change.ended_s is not None:
            key = (ChangeKind(change.kind), len(change.from_slots), len(change.to_slots))
            cost = cost_of(change, trial.step_s.get(len(change.to_slots), 0.0))
            trial.costs.setdefault(key, []).append(cost)
    job, last = records.jobs[0], records.steps[-1]
    if job.finish_s is not None:
        skipped_s = records.facts.get("idle_skipped_s", 0.0)
        ending_s = job.finish_s - skipped_s - last.started_s - last.duration_s
        key = (ChangeKind.STOP, last.num_workers, 0)
        trial.costs[key] = [RescaleCost(0.0, max(0.0, ending_s), {})]
    return trial


def step_times(steps: Sequence[StepRecord]) -> dict[int, float]:
    """Return mean step periods by number of workers, without the first steps of each stretch."""
    return {
        workers: fmean(found) for workers, found in sorted(step_periods(steps).items()) if found
    }


def cost_of(change: ChangeRecord, step_s: float) -> RescaleCost:
    """Return the preparation and pause with which the simulated engine loses as much time as
    measured.

    The engine reports a change as done when the first step after it has ended. The time of a usual
    step (``step_s``) in this interval is progress and not a cost. The pause of a rescale is the
    stopping time, plus the time that the first step took above a usual one; the rest was training.
    The pause of a suspension is the time of saving and stopping.
    """
    assert change.ended_s is not None
    total_s = change.ended_s - change.requested_s
    phases_s = dict(change.phases_s)
    kind = ChangeKind(change.kind)
    if kind in (ChangeKind.RESCALE, ChangeKind.MIGRATE) and change.stopping_time_s is not None:
        first_step_s = phases_s.get("first_step", step_s)
        pause_s = change.stopping_time_s + max(0.0, first_step_s - step_s)
        preparation_s = total_s - change.stopping_time_s - first_step_s
    elif kind is ChangeKind.SUSPEND:
        pause_s = min(total_s, sum(phases_s.values()) or total_s)
        preparation_s = total_s - pause_s
    else:
        pause_s, preparation_s = total_s - step_s, 0.0
    return RescaleCost(max(0.0, preparation_s), max(0.0, pause_s), phases_s)


def median_cost(costs: Sequence[RescaleCost]) -> RescaleCost:
    """Return the median of each part of the costs."""
    phases = dict.fromkeys(phase for cost in costs for phase in cost.phases_s)
    return RescaleCost(
        median(cost.preparation_s for cost in costs),
        median(cost.pause_s for cost in costs),
        {
            phase: median(cost.phases_s[phase] for cost in costs if phase in cost.phases_s)
            for phase in phases
        },
    )


def relative_spread(values: Iterable[float]) -> float:
    """Return largest minus smallest value, divided by the median."""
    found = list(values)
    return (max(found) - min(found)) / median(found)
