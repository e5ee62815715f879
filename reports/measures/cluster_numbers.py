"""Numbers of a replay on a cluster for criteria: load, waiting, idle slots, speed.

The functions are pure functions of a run's records. Times are in seconds, shares are of 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.contracts.job_state import JobState
from harness.results.records import GrantRecord
from reports.runs.selection import ReportRun

SHORT_IDLE_S = 240.0
"""Seconds below which an idle interval is short [EDL, section 2.3]."""
SIZE_CLASSES = (0.0, 0.2, 0.5, 0.9, 1.0)
"""Ends of the classes of jobs by slots times running time, as shares of all jobs [EDL, section
2.3]."""
CROWDED = 2.0
"""Ratio of an hour's submissions to the hourly mean from which the hour is a burst; our choice."""
FEW_HELD = 2.0 / 3.0
"""Share of slots held below which a cluster is clearly under-used; our choice."""

Values = npt.NDArray[np.float64]
Levels = tuple[Values, Values]
"""A step function: the times at which it changes, ascending, and its value from each time on."""


def _levels(steps: Iterable[tuple[float, float, float]]) -> Levels:
    """Return the sum of rectangles (from, until, height) over time."""
    change: dict[float, float] = defaultdict(float)
    for start_s, end_s, height in steps:
        change[start_s] += height
        change[end_s] -= height
    times = np.array(sorted(change), dtype=np.float64)
    return times, np.cumsum([change[time] for time in times.tolist()])


def _at(levels: Levels, at_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    times, values = levels
    place = np.searchsorted(times, at_s, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], 0.0)


def _held(run: ReportRun) -> Levels:
    return _levels((each.start_s, each.end_s, float(len(each.slots))) for each in run.grants)


def _arrivals(run: ReportRun) -> tuple[float, float]:
    times = [job.arrival_s for job in run.jobs]
    return min(times, default=0.0), max(times, default=0.0)


def _pieces(until: tuple[float, float], *levels: Levels) -> npt.NDArray[np.float64]:
    """Return the ends of the pieces of a window on which all step functions are constant."""
    inside = [times[(times > until[0]) & (times < until[1])] for times, _ in levels]
    return np.unique(np.concatenate([np.array(until), *inside]))


def _time_share(run: ReportRun, holds: Callable[..., npt.NDArray[np.bool_]], *of: Levels) -> float:
    """Return the share of the time from first to last arrival in which a condition holds."""
    ends = _pieces(_arrivals(run), *of)
    lengths = np.diff(ends)
    is_so = holds(*(_at(each, ends[:-1]) for each in of))
    return float(lengths[is_so].sum() / lengths.sum())


def _waiting_share(run: ReportRun) -> float | None:
    """Return the share of the time in which some job waits for its first slots."""
    ends = [
        (job.arrival_s, job.first_start_s, 1.0) for job in run.jobs if job.first_start_s is not None
    ]
    return _time_share(run, lambda waiting: waiting > 0.5, _levels(ends)) if ends else None


def _under_used_share(run: ReportRun) -> float | None:
    """Return the share of the time in which fewer than two thirds of the slots are held."""
    most = FEW_HELD * run.num_slots
    return _time_share(run, lambda held: held < most, _held(run)) if run.grants else None


def _held_in_calm(run: ReportRun) -> float | None:
    """Return the mean share of slots held while jobs are present and all their requests fit."""
    present = [
        (job.arrival_s, job.finish_s, float(job.requested_slots))
        for job in run.jobs
        if job.finish_s is not None and job.state != JobState.REFUSED
    ]
    if not present or not run.grants:
        return None
    asked, held = _levels(present), _held(run)
    ends = _pieces(_arrivals(run), asked, held)
    wanted = _at(asked, ends[:-1])
    lengths = np.diff(ends) * ((wanted > 0.5) & (wanted <= run.num_slots))
    if not lengths.sum():
        return None
    return float((_at(held, ends[:-1]) * lengths).sum() / lengths.sum() / run.num_slots)


def _refused(run: ReportRun, *, crowded: bool) -> float | None:
    """Return the refused share of the jobs submitted in bursts, or of all other jobs."""
    hours = [int(job.arrival_s // 3600) for job in run.jobs]
    if not hours:
        return None
    mean = len(hours) / (max(hours) - min(hours) + 1)
    own = [
        job.state == JobState.REFUSED
        for job, hour in zip(run.jobs, hours, strict=True)
        if (hours.count(hour) > CROWDED * mean) is crowded
    ]
    return sum(own) / len(own) if own else None


def _burst_less_calm(run: ReportRun) -> float | None:
    burst, calm = _refused(run, crowded=True), _refused(run, crowded=False)
    return burst - calm if burst is not None and calm is not None else None


def _tight_share(run: ReportRun) -> float | None:
    """Return the share of deadlines with less time than a job runs alone on its requested slots."""
    bound = [
        job.deadline_s - job.arrival_s < job.alone_s
        for job in run.jobs
        if job.deadline_s is not None and job.alone_s is not None
    ]
    return sum(bound) / len(bound) if bound else None


def idle_intervals_s(run: ReportRun) -> list[float]:
    """Return the lengths of the intervals between two jobs on one slot, in seconds."""
    periods: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for grant in run.grants:
        for slot in grant.slots:
            periods[slot].append((grant.start_s, grant.end_s))
    return [
        after[0] - before[1]
        for own in periods.values()
        for before, after in pairwise(sorted(own))
        if after[0] > before[1]
    ]


def _short_idle_share(run: ReportRun) -> float | None:
    idle_s = idle_intervals_s(run)
    return sum(each < SHORT_IDLE_S for each in idle_s) / len(idle_s) if idle_s else None


def idle_density(run: ReportRun) -> tuple[Values, Values] | None:
    """Return the middles of bins of idle length, in seconds, and intervals per second of length.

    The ten bins have equal widths in logarithms, from 10 s to the longest interval; empty bins are
    left out. The result is None for fewer than 100 intervals.
    """
    idle_s = np.array([each for each in idle_intervals_s(run) if each >= 10.0])
    if idle_s.size < 100:
        return None
    counts, edges = np.histogram(idle_s, np.geomspace(10.0, idle_s.max(), 11))
    middles, widths = np.sqrt(edges[1:] * edges[:-1]), np.diff(edges)
    seen = counts > 0
    return middles[seen], counts[seen] / widths[seen]


def _idle_power_law(run: ReportRun) -> float | None:
    """Return the correlation of the density of idle intervals with their length, in logarithms.

    A value of -1 is a falling power law.
    """
    if (found := idle_density(run)) is None:
        return None
    lengths_s, density = found
    return float(np.corrcoef(np.log(lengths_s), np.log(density))[0, 1])


def waiting_ratios(run: ReportRun) -> list[Values]:
    """Return waiting time over running time of the jobs of each size class, smallest jobs first."""
    found: list[tuple[float, float]] = []
    for job in run.jobs:
        if job.state == JobState.FINISHED and job.first_start_s is not None and job.executed_s > 0:
            wait_s = job.first_start_s - job.arrival_s
            found.append((job.requested_slots * job.executed_s, wait_s / job.executed_s))
    ratios = np.array([ratio for _, ratio in sorted(found)])
    ends = [round(share * ratios.size) for share in SIZE_CLASSES]
    return [ratios[low:high] for low, high in pairwise(ends)]


def _waited(run: ReportRun, size: int, ratio: float) -> float | None:
    own = waiting_ratios(run)[size]
    return float((own > ratio).mean()) if own.size else None


def _waited_ratio(run: ReportRun, size: int) -> float | None:
    """Return the share of a class that waits longer than it runs, over the next larger class's."""
    own, larger = _waited(run, size, 1.0), _waited(run, size + 1, 1.0)
    return own / larger if own is not None and larger else None


def _size_spread(run: ReportRun) -> float | None:
    """Return slots times running time of jobs: the 90th percentile over the 20th."""
    sizes = [j.requested_slots * j.executed_s for j in run.jobs if j.state == JobState.FINISHED]
    if not sizes:
        return None
    low, high = np.percentile(sizes, [20.0, 90.0])
    return float(high / low) if low > 0 else None


def _speedups(run: ReportRun, after: int) -> tuple[float, float] | None:
    """Return the sum of speedups relative to one slot, and the slots held, just before job
    ``after`` + 1 arrives.

    If job ``after`` is the last, the moment is one previous inter-arrival time after its arrival.
    """
    arrivals = sorted(job.arrival_s for job in run.jobs)
    if not 1 < after <= len(arrivals):
        return None
    last_s, gap_s = arrivals[-1], arrivals[-1] - arrivals[-2]
    at_s = (arrivals[after] if after < len(arrivals) else last_s + gap_s) - 1e-3
    return _sums([each for each in run.grants if each.start_s <= at_s < each.end_s])


def _sums(grants: Sequence[GrantRecord]) -> tuple[float, float] | None:
    speeds = [each.speedup for each in grants if each.speedup is not None]
    if not grants or len(speeds) < len(grants):
        return None
    return sum(speeds), float(sum(len(each.slots) for each in grants))


def _cluster_speed(run: ReportRun, after: int) -> float | None:
    found = _speedups(run, after)
    return found[0] if found else None


def _slot_speed(run: ReportRun, after: int) -> float | None:
    found = _speedups(run, after)
    return found[0] / found[1] if found else None


def _growth(run: ReportRun) -> float | None:
    half, whole = _cluster_speed(run, len(run.jobs) // 2), _cluster_speed(run, len(run.jobs))
    return whole / half if half and whole else None


def _early_efficiency(run: ReportRun) -> float | None:
    """Return cluster efficiency, as in the metric, from the first to the last arrival."""
    start_s, end_s = _arrivals(run)
    speeds = [
        (each.speedup or 0.0) * max(0.0, min(each.end_s, end_s) - max(each.start_s, start_s))
        for each in run.grants
    ]
    if not speeds or any(each.speedup is None for each in run.grants) or end_s <= start_s:
        return None
    return sum(speeds) / (run.num_slots * (end_s - start_s))


def _decision_gap_s(run: ReportRun) -> float | None:
    """Return the mean time between two successive moments at which jobs arrive or end."""
    ends = [job.finish_s for job in run.jobs if job.finish_s is not None]
    times = sorted({*(job.arrival_s for job in run.jobs), *ends})
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None


def _with_serving(run: ReportRun) -> tuple[Values, Values, Values] | None:
    """Return pieces of the time from the first to the last arrival, with the slots in use.

    The result has the lengths of the pieces, the slots of serving, and the slots of serving and
    jobs. Serving takes its slots as outages.
    """
    if not run.outages or not run.grants:
        return None
    serving = _levels((each.start_s, each.end_s, 1.0) for each in run.outages)
    held = _held(run)
    ends = _pieces(_arrivals(run), serving, held)
    alone = _at(serving, ends[:-1])
    return np.diff(ends), alone, alone + _at(held, ends[:-1])


def _deviation(values: npt.NDArray[np.float64], lengths: npt.NDArray[np.float64]) -> float:
    mean = np.average(values, weights=lengths)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=lengths)))


def _flatter(run: ReportRun) -> float | None:
    """Return the standard deviation of slots in use by serving and jobs, over that by serving."""
    if (found := _with_serving(run)) is None:
        return None
    lengths, alone, both = found
    varies = _deviation(alone, lengths)
    return _deviation(both, lengths) / varies if varies else None


def _fuller(run: ReportRun) -> float | None:
    """Return the mean of the slots in use by serving and jobs, over that by serving alone."""
    if (found := _with_serving(run)) is None:
        return None
    lengths, alone, both = found
    return float((both * lengths).sum() / (alone * lengths).sum())


CLUSTER_NUMBERS: Mapping[str, Callable[[ReportRun], float | None]] = {
    "waiting_time_share": _waiting_share,
    "under_used_time_share": _under_used_share,
    "slots_held_in_calm_share": _held_in_calm,
    "refused_in_calm_share": lambda run: _refused(run, crowded=False),
    "refused_in_bursts_less_calm": _burst_less_calm,
    "tight_deadline_share": _tight_share,
    "idle_below_4_min_share": _short_idle_share,
    "idle_length_log_correlation": _idle_power_law,
    "small_jobs_waiting_longer_than_running_share": lambda run: _waited(run, 0, 1.0),
    "small_jobs_waiting_ten_times_running_share": lambda run: _waited(run, 0, 10.0),
    "small_over_medium_waiting_share": lambda run: _waited_ratio(run, 0),
    "medium_over_large_waiting_share": lambda run: _waited_ratio(run, 1),
    "job_size_p90_over_p20": _size_spread,
    "cluster_speed_after_4_jobs": lambda run: _cluster_speed(run, 4),
    "cluster_speed_whole_over_half": _growth,
    "slot_speed_after_4_jobs": lambda run: _slot_speed(run, 4),
    "slot_speed_after_16_jobs": lambda run: _slot_speed(run, 16),
    "cluster_efficiency_until_last_arrival": _early_efficiency,
    "events_apart_mean_s": _decision_gap_s,
    "in_use_deviation_over_that_of_serving": _flatter,
    "in_use_over_that_of_serving": _fuller,
}
"""Functions by the name that criteria use; the unit is in the name."""
