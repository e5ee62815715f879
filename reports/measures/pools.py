"""Pairs of runs that differ only in the scheduler, for each size of the cluster."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.contracts.job_state import JobState
from harness.results.records import JobRecord
from reports.runs.selection import ReportRun

PER = 100
"""Number of the baseline's jobs for which additional jobs are counted."""
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
        """Return a metric of both runs in minutes, the baseline's first."""
        return self.baseline_run.metrics[metric] / 60.0, self.run.metrics[metric] / 60.0

    def additional_by_time(self) -> float:
        """Return how many more jobs the system trains while the baseline trains 100.

        The result is 100 T_baseline / T - 100, where T is the mean total time of a job [Hu, Fig.
        11; the formula is a choice].
        """
        baseline, own = self.minutes("jct_mean_s")
        return PER * (baseline / own - 1.0)

    def additional_by_count(self) -> float | None:
        """Return how many more jobs the system finishes for each 100 of the baseline, by counting.

        Jobs are counted when the baseline has finished its 100th, 200th ... job. The result is None
        below 100 jobs, and for runs that were copied without the table of their jobs.
        """
        if any("jobs" in run.stored.left_out for run in (self.baseline_run, self.run)):
            return None
        return additional_by_count(_finishes_s(self.baseline_run.jobs), _finishes_s(self.run.jobs))


def additional_by_count(baseline_s: Sequence[float], own_s: Sequence[float]) -> float | None:
    """Return how many more jobs finish in ``own_s`` for each 100 in ``baseline_s``.

    Both list the times, in seconds, at which jobs finish, ascending. The result is the mean over
    the baseline's 100th, 200th ... job; None below 100 jobs.
    """
    marks = range(PER, len(baseline_s) + 1, PER)
    shares = [bisect_right(own_s, baseline_s[mark - 1]) / mark for mark in marks]
    return PER * (fmean(shares) - 1.0) if shares else None


def scenarios(runs: Sequence[ReportRun]) -> dict[str, str]:
    """Return the scenario of every run by run id: the trace, and the profile if profiles differ."""
    chosen = {run.run_id: [_choice(run, group) for group in _SCENARIO] for run in runs}
    differ = [len({names[at] for names in chosen.values()}) > 1 for at in range(len(_SCENARIO))]
    shown = [True, *differ[1:]]
    return {
        run_id: ", ".join(name for name, is_shown in zip(names, shown, strict=True) if is_shown)
        for run_id, names in chosen.items()
    }


def pairs(runs: Sequence[ReportRun]) -> list[Pair]:
    """Return every run paired with the baseline's run of the same scenario, slots and trial.

    The baseline is the system with the longest mean total time over all of these. With only one
    system there are no pairs.
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
