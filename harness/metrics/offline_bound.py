"""Bounds that no schedule can beat, even with knowledge of the future.

Each bound is the optimum of an easier problem, in which slots can be split and joined at will and
every job always has its best speed. So even an optimal scheduler may stay above them. They use the
profile's curves at the jobs' own batches.

``m`` is the least slot time that a job needs on any number of slots, ``f`` its least run time alone
on the cluster, ``G`` the number of slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from harness.contracts.job_state import JobState
from harness.results.records import JobRecord, RunRecords

MOST_INTERVALS = 400
"""Largest number of periods into which time is divided for deadlines. With more moments, windows
are rounded outwards, which only loosens the bound."""
MOST_CELLS = 200_000
"""Jobs times periods up to which the bound on deadlines is computed."""


def bounds(records: RunRecords) -> dict[str, float | None]:
    """Return both bounds as metrics; only for simulations, whose speeds are the profile's.

    ``jct``: least mean JCT of the jobs that finished, seconds. ``deadline``: most deadlines that
    could be met, over the jobs with a deadline. Ours. Absent if jobs may share devices, which can
    do more together than the curves say.
    """
    num_slots = records.facts.get("num_slots", 0.0)
    if any(map(records.facts.get, ("steps_executed", "steps_credited", "num_devices"))):
        return {}
    most = most_deadlines_met(records.jobs, num_slots)
    return {
        "jct_bound_mean_s": least_jct_mean_s(records.jobs, num_slots),
        "deadline_bound_ratio": None if most is None else most / len(_with_deadline(records.jobs)),
    }


def least_jct_mean_s(jobs: Sequence[JobRecord], num_slots: float) -> float | None:
    """Return a lower bound of the mean completion time, in seconds, of the jobs that finished, over
    all schedules.

    The greatest of three bounds on the sum of completion times is taken, minus the arrivals:

    - every job takes at least ``f``;
    - one machine that does a job in ``m / G`` and serves the shortest remaining first (Schrage,
      1968; optimal on one machine);
    - on the same machine with whole jobs by ``m``, the mean moment at which a job's work is done
      is least in sum (Goemans, 1997), and a job cannot end before its mean moment plus ``f / 2``,
      because it does at most 1 / f of its work a second (Eastman, Even and Isaacs, 1964).

    None if a finished job's ``m`` or ``f`` is unknown, or no job finished.
    """
    done = [job for job in jobs if job.state == JobState.FINISHED]
    if not done or not num_slots:
        return None
    arrivals: list[float] = []
    machine_s: list[float] = []
    fastest_s: list[float] = []
    for job in done:
        if job.least_slot_s is None or job.fastest_alone_s is None:
            return None
        arrivals.append(job.arrival_s)
        machine_s.append(job.least_slot_s / num_slots)
        fastest_s.append(max(job.fastest_alone_s, job.least_slot_s / num_slots))
    alone = math.fsum(arrivals) + math.fsum(fastest_s)
    by_remaining, _ = _one_machine(arrivals, machine_s, by_remaining=True)
    _, mean_moments = _one_machine(arrivals, machine_s, by_remaining=False)
    best = max(alone, by_remaining, mean_moments + math.fsum(fastest_s) / 2)
    return (best - math.fsum(arrivals)) / len(done)


def _one_machine(
    arrivals_s: Sequence[float], lengths_s: Sequence[float], *, by_remaining: bool
) -> tuple[float, float]:
    """Return the sum of completion times and the sum of mean work times on one preemptive machine
    that serves the shortest job first.

    ``by_remaining``: order jobs by their remaining length, else by their whole length.
    """
    order = sorted(range(len(arrivals_s)), key=lambda job: arrivals_s[job])
    left = list(lengths_s)
    ready: list[tuple[float, int]] = []
    ends, moments, now_s, upcoming = [], [], 0.0, 0
    while ready or upcoming < len(order):
        if not ready:
            now_s = max(now_s, arrivals_s[order[upcoming]])
        while upcoming < len(order) and arrivals_s[order[upcoming]] <= now_s:
            heappush(ready, (left[order[upcoming]], order[upcoming]))
            upcoming += 1
        key, job = heappop(ready)
        until_s = arrivals_s[order[upcoming]] if upcoming < len(order) else math.inf
        run_s = min(left[job], until_s - now_s)
        if lengths_s[job] > 0:
            moments.append((now_s + run_s / 2) * run_s / lengths_s[job])
        if run_s < left[job]:
            left[job] -= run_s
            heappush(ready, (left[job] if by_remaining else key, job))
            now_s = until_s
        else:
            now_s += run_s
            left[job] = 0.0
            ends.append(now_s)
    return math.fsum(ends), math.fsum(moments)


def most_deadlines_met(jobs: Sequence[JobRecord], num_slots: float) -> int | None:
    """Return an upper bound of the number of the jobs' deadlines that any schedule meets.

    A linear program gives it. Each job does a share of its work, at most 1 in total, in the periods
    between its arrival and its deadline. In each period it does at most ``length / f`` of its work.
    All jobs together use at most ``G * length`` slot time. The greatest sum of the shares, rounded
    down, bounds how many jobs can be in time. Jobs that their owners cancelled do not count.

    None if no job has a deadline, an ``m`` or ``f`` is unknown, or there are too many jobs
    (``MOST_CELLS``).
    """
    bound = _with_deadline(jobs)
    if not bound or not num_slots:
        return None
    windows: list[tuple[float, float, float, float]] = []
    for job in bound:
        if job.least_slot_s is None or job.fastest_alone_s is None or job.deadline_s is None:
            return None
        # The slack covers rounding: a simulated job may meet its deadline to the last bit.
        deadline_s = job.deadline_s + 1e-6 * (job.deadline_s - job.arrival_s)
        if job.arrival_s + job.fastest_alone_s <= deadline_s:
            windows.append((job.arrival_s, deadline_s, job.least_slot_s, job.fastest_alone_s))
    if not windows:
        return 0
    moments = _moments([moment for window in windows for moment in window[:2]])
    if len(windows) * len(moments) > MOST_CELLS:
        return None
    return math.floor(_most_shares(windows, moments, num_slots) + 1e-6)


def _with_deadline(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    return [job for job in jobs if job.deadline_s is not None and job.state != JobState.CANCELLED]


def _moments(moments_s: Sequence[float]) -> list[float]:
    """Return the moments in ascending order without repetitions; of many, every k-th and the
    last."""
    distinct = sorted(set(moments_s))
    every = math.ceil(len(distinct) / MOST_INTERVALS)
    return [*distinct[:-1:every], distinct[-1]]


def _most_shares(
    windows: Sequence[tuple[float, float, float, float]], moments: list[float], num_slots: float
) -> float:
    """Return the greatest sum of shares of jobs done within their windows (arrival, deadline, m,
    f)."""
    import highspy

    starts, indices = [0], list[int]()
    entries, columns = list[float](), list[float]()
    num_jobs = len(windows)
    for job, (arrival_s, deadline_s, slot_s, fastest_s) in enumerate(windows):
        first = int(np.searchsorted(moments, arrival_s, side="right")) - 1
        last = int(np.searchsorted(moments, deadline_s, side="left"))
        for period in range(first, last):
            columns.append(min(1.0, (moments[period + 1] - moments[period]) / fastest_s))
            indices += [job, num_jobs + period]
            entries += [1.0, slot_s]
            starts.append(len(indices))
    lengths = [after - before for before, after in pairwise(moments)]
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(columns), num_jobs + len(lengths)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_ = np.ones(len(columns)), np.zeros(len(columns))
    lp.col_upper_ = np.array(columns)
    lp.row_lower_ = np.full(lp.num_row_, -highspy.kHighsInf)
    lp.row_upper_ = np.array([1.0] * num_jobs + [num_slots * length for length in lengths])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = np.array(starts), np.array(indices)
    lp.a_matrix_.value_ = np.array(entries)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(
            f"HiGHS ended with {solver.modelStatusToString(status)!r} on the bound of"
            f" {num_jobs} deadlines; nothing done is a solution, so this is the solver's mistake"
        )
    return float(solver.getInfo().objective_function_value)
