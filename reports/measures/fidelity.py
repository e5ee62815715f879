"""Comparison of the simulator with live runs of the same trace."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from harness.metrics.statistics import Estimate, estimate
from reports.runs.selection import ReportRun, groups

METRICS: Mapping[str, str] = {
    "jct_mean_s": "mean JCT",
    "jct_median_s": "median JCT",
    "jct_p95_s": "JCT, 95th percentile",
    "queueing_mean_s": "mean queueing delay",
    "makespan_s": "makespan",
    "slot_utilization_mean": "slots in use",
    "cluster_efficiency_mean": "cluster efficiency",
    "deadline_satisfactory_ratio": "deadlines met",
    "rescales": "rescales",
    "stopping_time_scale_out_mean_s": "stopping time, scale-out",
    "stopping_time_scale_in_mean_s": "stopping time, scale-in",
    "resource_loss_slot_s": "resource loss",
}
"""Metrics that are compared, with their names."""


_WALL_CLOCK = frozenset(
    {
        "stopping_time_scale_out_mean_s",
        "stopping_time_scale_in_mean_s",
        "resource_loss_slot_s",
    }
)
"""Metrics that live runs have in wall-clock seconds; these are converted to the engine's clock."""


JOB_PERCENT = 95
"""Percentile over jobs at which errors of single jobs are given."""


@dataclass(frozen=True)
class Comparison:
    """One metric of one scheduler and backend, simulated and with real training."""

    metric: str
    system: str
    simulated: float
    live: Sequence[float]
    errors: Sequence[float]
    """Value of simulated / live - 1 for each live trial."""
    speeds: Sequence[float | None] = ()
    """Speed of the machine in each trial over that of the profile; None if unknown."""
    own: Sequence[float | None] = ()
    """Error for each live trial, simulated again at its workers' own speeds; None if it was not
    simulated again."""
    draws: Sequence[float] = ()
    """Each simulated run over the mean of its seed, minus 1; other than 0 if speeds were drawn."""

    @property
    def error(self) -> Estimate:
        """Mean error and its interval.

        Drawn simulations widen the interval by the uncertainty of their own mean; there is no
        interval if they are too few.
        """
        found = estimate(self.errors)
        if not any(self.draws):
            return found
        halves = found.half_width, estimate(self.draws).half_width
        known = [half for half in halves if half is not None]
        half_width = math.hypot(*known) if len(known) == len(halves) else None
        return Estimate(found.mean, found.num_trials, half_width)

    @property
    def error_at_own_speeds(self) -> Estimate | None:
        """Mean error with each trial's own speeds; None if a trial was not simulated again."""
        own = [error for error in self.own if error is not None]
        return estimate(own) if own and len(own) == len(self.errors) else None

    @property
    def error_at_equal_speed(self) -> Estimate | None:
        """Mean error if the machine were as fast as the profile says, to a first approximation.

        The value is None if a trial's speed is unknown.
        """
        speeds = [speed for speed in self.speeds if speed]
        if len(speeds) < len(self.errors):
            return None
        pairs = zip(self.errors, speeds, strict=True)
        return estimate([(1 + error) / speed - 1 for error, speed in pairs])

    @property
    def spread(self) -> tuple[float, float]:
        """Least and largest live trial over the mean of live trials, minus 1."""
        mean = fmean(self.live)
        return min(self.live) / mean - 1, max(self.live) / mean - 1


def engine_pairs(runs: Sequence[ReportRun]) -> dict[tuple[str, str], list[ReportRun]]:
    """Return the runs of one setting for each pair of a simulated and a live engine."""
    live, simulated = (
        sorted({run.engine for run in runs if run.is_live is is_live}) for is_live in (True, False)
    )
    return {
        both: [run for run in runs if run.engine in both]
        for both in itertools.product(simulated, live)
    }


def compare(runs: Sequence[ReportRun]) -> list[Comparison]:
    """Return a comparison for every metric of every system that has live and simulated runs.

    A live trial is compared with the mean of the simulated runs of its seed. These are all equal
    unless their speeds and costs were drawn. A trial whose seed was not simulated is compared with
    the only simulated seed, if there is exactly one.
    """
    found = []
    for (system,), trials in groups(runs, "system").items():
        live = [run for run in trials if run.is_live]
        simulated = [run for run in trials if not run.is_live]
        for metric in METRICS if live and simulated else ():
            said, draws = _expected(simulated, metric)
            pairs = []
            for run in live:
                expected = said.get(run.trial[0])
                if expected is None and len(said) == 1:
                    expected = next(iter(said.values()))
                if expected is None or not run.metrics.get(metric):
                    continue
                real_s = run.dilation if metric in _WALL_CLOCK else 1.0
                speed = run.metrics.get("speed_over_profile")
                again = run.metrics.get(f"resimulated_{metric}")
                pairs.append((expected, run.metrics[metric] / real_s, speed, again))
            if pairs:
                ours, real, speeds, anew = zip(*pairs, strict=True)
                errors = [one / theirs - 1 for one, theirs in zip(ours, real, strict=True)]
                own = [
                    None if one is None else one / theirs - 1
                    for one, theirs in zip(anew, real, strict=True)
                ]
                mean = fmean(ours)
                found.append(Comparison(metric, system, mean, real, errors, speeds, own, draws))
    return found


def _expected(runs: Sequence[ReportRun], metric: str) -> tuple[dict[int, float], list[float]]:
    """Return the mean of a metric by seed, and the relative distance of each run from that mean."""
    by_seed: dict[int, list[float]] = {}
    for run in runs:
        if metric in run.metrics:
            by_seed.setdefault(run.trial[0], []).append(run.metrics[metric])
    means = {seed: fmean(values) for seed, values in by_seed.items()}
    # Equal values get exactly 0, because rounding could make their mean differ in the last digit.
    draws = [
        value / means[seed] - 1 if len(set(values)) > 1 and means[seed] else 0.0
        for seed, values in by_seed.items()
        for value in values
    ]
    return means, draws


def job_errors(trials: Sequence[ReportRun]) -> list[float]:
    """Return for every live trial of a system a percentile, over jobs, of the error of their JCT.

    A trial is compared with the mean of the simulations of its seed.
    """
    by_seed: dict[int, list[dict[str, float]]] = {}
    for run in (run for run in trials if not run.is_live and run.is_drawable):
        by_seed.setdefault(run.trial[0], []).append(_completion_times(run))
    expected = {seed: _mean_times(found) for seed, found in by_seed.items()}
    return [
        error
        for run in trials
        if run.is_live and run.is_drawable and run.trial[0] in expected
        for error in _percentile(expected[run.trial[0]], _completion_times(run))
    ]


def _mean_times(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean completion time of the jobs that finished in all runs, in seconds."""
    known = set(runs[0]).intersection(*runs[1:])
    return {job: fmean(own[job] for own in runs) for job in runs[0] if job in known}


def job_spread(trials: Sequence[ReportRun]) -> float | None:
    """Return the error of jobs' JCT when a trial is predicted by the mean of its seed's other live
    trials.

    The error is a percentile over jobs, as in ``job_errors``, and a mean over trials. Even a
    prediction that knows all other trials has this error. The result is None without another trial.
    """
    live = [
        (run.trial[0], _completion_times(run)) for run in trials if run.is_live and run.is_drawable
    ]
    found = []
    for number, (seed, theirs) in enumerate(live):
        others = [own for at, (other, own) in enumerate(live) if other == seed and at != number]
        found += _percentile(_mean_times(others) if others else {}, theirs)
    return fmean(found) if found else None


def _percentile(ours: Mapping[str, float], theirs: Mapping[str, float]) -> list[float]:
    """Return the percentile over jobs of their relative error; empty if the runs share no job."""
    errors = [
        abs(ours[job_id] / their_s - 1)
        for job_id, their_s in theirs.items()
        if job_id in ours and their_s > 0
    ]
    return [float(np.percentile(errors, JOB_PERCENT))] if errors else []


def _completion_times(run: ReportRun) -> dict[str, float]:
    return {
        job.job_id: job.finish_s - job.arrival_s for job in run.jobs if job.finish_s is not None
    }
