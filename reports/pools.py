"""Schedulers over the size of the cluster, in pairs of runs that share everything else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.contracts.engine import JobState
from harness.records import JobRecord
from reports.selection import ReportRun

PER = 100
"""Jobs of the baseline that the other's are counted against."""
_SCENARIO = ("trace", "profile")


@dataclass(frozen=True)
class Pair:
    """One trial of two schedulers on equal slots."""

    scenario: str
    num_slots: int
    system: str
    baseline_run: ReportRun
    run: ReportRun

    def minutes(self, metric: str) -> tuple[float, float]:
        """A metric of both in minutes, the baseline's first."""
        return self.baseline_run.metrics[metric] / 60.0, self.run.metrics[metric] / 60.0

    def additional_by_time(self) -> float:
        """Jobs that the system trains more while the baseline trains 100, by mean total times:
        at a time T for each, 100 T_baseline / T - 100 [Hu, Fig. 11; the formula is a choice]."""
        baseline, own = self.minutes("jct_mean_s")
        return PER * (baseline / own - 1.0)

    def additional_by_count(self) -> float | None:
        """The same by counting: what the system has finished more when the baseline has finished
        its 100th, 200th ... job, for each 100 of them; None below 100 jobs, and for runs that were
        copied without the table of their jobs."""
        if any("jobs" in run.stored.left_out for run in (self.baseline_run, self.run)):
            return None
        return additional_by_count(_finishes_s(self.baseline_run.jobs), _finishes_s(self.run.jobs))


def additional_by_count(baseline_s: Sequence[float], own_s: Sequence[float]) -> float | None:
    """See ``Pair``; times of finished jobs, ascending, seconds."""
    marks = range(PER, len(baseline_s) + 1, PER)
    shares = [bisect_right(own_s, baseline_s[mark - 1]) / mark for mark in marks]
    return PER * (fmean(shares) - 1.0) if shares else None


def scenarios(runs: Sequence[ReportRun]) -> dict[str, str]:
    """What every run replays, by run id: its trace, and its profile where profiles differ."""
    chosen = {run.run_id: [_choice(run, group) for group in _SCENARIO] for run in runs}
    differ = [len({names[at] for names in chosen.values()}) > 1 for at in range(len(_SCENARIO))]
    shown = [True, *differ[1:]]
    return {
        run_id: ", ".join(name for name, is_shown in zip(names, shown, strict=True) if is_shown)
        for run_id, names in chosen.items()
    }


def pairs(runs: Sequence[ReportRun]) -> list[Pair]:
    """Every run beside the baseline's of its scenario, slots and trial.

    The baseline is the system with the longest mean total time over all those; with one system
    alone there are no pairs.
    """
    names = scenarios(runs)
    whole = [run for run in runs if {"jct_mean_s", "queueing_mean_s"} <= run.metrics.keys()]
    by_point: dict[tuple[str, int, tuple[int, int]], dict[str, ReportRun]] = {}
    for run in whole:
        point = (names[run.run_id], run.num_slots, run.trial)
        by_point.setdefault(point, {})[run.system] = run
    shared = {point: own for point, own in by_point.items() if len(own) > 1}
    baseline = _slowest(shared)
    return [
        Pair(scenario, num_slots, system, own[baseline], run)
        for (scenario, num_slots, _), own in sorted(shared.items(), key=lambda item: item[0])
        if baseline in own
        for system, run in sorted(own.items())
        if system != baseline
    ]


def _slowest(points: Mapping[tuple[str, int, tuple[int, int]], Mapping[str, ReportRun]]) -> str:
    times: dict[str, list[float]] = {}
    for own in points.values():
        for system, run in own.items():
            times.setdefault(system, []).append(run.metrics["jct_mean_s"])
    return max(sorted(times), key=lambda system: fmean(times[system]), default="")


def _choice(run: ReportRun, group: str) -> str:
    return str((run.stored.manifest.get("choices") or {}).get(group, "?"))


def _finishes_s(jobs: Sequence[JobRecord]) -> list[float]:
    return sorted(
        job.finish_s for job in jobs if job.state == JobState.FINISHED and job.finish_s is not None
    )
