"""Workers that became slow in stored runs: the throughput lost, and their removal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.results.records import SlowingRecord, StepRecord
from reports.runs.selection import ReportRun

SETTLED_S = 1.0
"""Seconds left out at the beginning of the run, and after the removal of slow workers, when
throughput is measured. Workers that become slow within this time are one case."""


@dataclass(frozen=True)
class Case:
    """Moment of a run at which workers became slow; times are seconds from that moment."""

    run_id: str
    rule: str
    """The backend's option ``straggler``."""
    workload: str
    num_workers: int
    num_slow: int
    speed: float
    """Speed of the slow workers, as a share of their usual speed."""
    usual: float | None
    """Samples per second before the slowing."""
    slow: float | None
    """Samples per second while the slow workers were part of the job."""
    after: float | None
    """Samples per second without the slow workers; None if any of them stayed."""
    detected_s: float | None
    """Time until the last of the removed workers was detected."""
    switched_s: float | None
    """Time until the first step without the removed workers."""
    num_removed: int
    curve: Sequence[tuple[float, float]]
    """Time and samples per second, over each second of the run."""


@dataclass(frozen=True)
class Watched:
    """Time in which a rule was on without a slow worker, and its mistaken removals."""

    run_id: str
    quiet_s: float
    num_mistaken: int


def cases(runs: Iterable[ReportRun]) -> list[Case]:
    """Return the first slowing of every run that has one; each run trains one job."""
    found = []
    for run in _slowed(runs):
        slowings = [one for one in run.stored.rows("slowings") if one.speed < 1]
        at_once = [one for one in slowings if one.at_s - slowings[0].at_s < SETTLED_S]
        if at_once:
            found.append(_case(run, at_once, run.stored.rows("steps")))
    return found


def watched(runs: Iterable[ReportRun]) -> list[Watched]:
    """Return, for every live run with the rule on, the time without slow workers and the mistaken
    removals."""
    found = []
    for run in runs:
        if not run.is_live or _rule(run) == "off" or not run.stored.table_bytes("steps"):
            continue
        steps = run.stored.rows("steps")
        slowings = run.stored.rows("slowings")
        end_s = steps[-1].started_s + steps[-1].duration_s
        slow_s = sum(min(one.until_s, end_s) - one.at_s for one in slowings if one.speed < 1)
        mistaken = sum(one.speed >= 1 for one in slowings)
        found.append(Watched(run.run_id, end_s - steps[0].started_s - slow_s, mistaken))
    return found


def _slowed(runs: Iterable[ReportRun]) -> list[ReportRun]:
    return [run for run in runs if run.is_live and run.stored.table_bytes("slowings")]


def _rule(run: ReportRun) -> str:
    return str(run.stored.config.get("backend", {}).get("straggler", "off"))


def _case(run: ReportRun, slow: Sequence[SlowingRecord], steps: Sequence[StepRecord]) -> Case:
    at_s = slow[0].at_s
    removed = [one for one in slow if one.switched_s is not None]
    detected = [one.at_s + one.detected_s for one in removed if one.detected_s is not None]
    switched = [one.at_s + one.switched_s for one in removed if one.switched_s is not None]
    end_s = max(one.until_s for one in slow)
    gone_s = max(switched) if len(removed) == len(slow) else None
    return Case(
        run_id=run.run_id,
        rule=_rule(run),
        workload=run.jobs[0].workload,
        num_workers=slow[0].num_workers,
        num_slow=len(slow),
        speed=slow[0].speed,
        usual=throughput(steps, steps[0].started_s + SETTLED_S, at_s),
        slow=throughput(steps, at_s, min([end_s, *switched])),
        after=None if gone_s is None else throughput(steps, gone_s + SETTLED_S, float("inf")),
        detected_s=max(detected) - at_s if detected else None,
        switched_s=max(switched) - at_s if switched else None,
        num_removed=len(removed),
        curve=curve(steps, at_s),
    )


def throughput(steps: Sequence[StepRecord], from_s: float, until_s: float) -> float | None:
    """Return the samples per second of the steps between two moments; None for fewer than two."""
    inside = [s for s in steps if s.started_s >= from_s and s.started_s + s.duration_s <= until_s]
    if len(inside) < 2:
        return None
    length_s = inside[-1].started_s + inside[-1].duration_s - inside[0].started_s
    return sum(step.global_batch for step in inside) / length_s


def curve(
    steps: Sequence[StepRecord], zero_s: float, bin_s: float = 1.0
) -> list[tuple[float, float]]:
    """Return the samples per second in each bin of ``bin_s``, at its middle, from ``zero_s``.

    A step belongs to the bin in which it ends; its time includes the pause before it.
    """
    ends = [(step.started_s + step.duration_s - zero_s, step.global_batch) for step in steps]
    points = []
    last_s = ends[0][0]
    for index, own in groupby(ends[1:], key=lambda end: end[0] // bin_s):
        inside = list(own)
        length_s = inside[-1][0] - last_s
        last_s = inside[-1][0]
        points.append(((index + 0.5) * bin_s, sum(batch for _, batch in inside) / length_s))
    return points
