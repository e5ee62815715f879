"""Pure functions from records to numbers: every metric, its formula and its source.

A metric that does not apply is absent: never 0, never NaN. Ratios are fractions, times are seconds
unless the name says otherwise. *Percentiles* interpolate linearly between the two nearest ranks
(Hyndman and Fan's type 7, the default of numpy). *Window* is the makespan window: from the first
arrival to the last finish of a finished job.

Letters in brackets name papers: EDL, Saxena, ElasticFlow, Hu, Themis, Tiresias.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from harness.contracts.change import ChangeKind
from harness.contracts.job_state import JobState
from harness.metrics.accuracy import accuracy
from harness.metrics.bitwise import bitwise_equal
from harness.metrics.columns import Floats, column, finished, mean
from harness.metrics.coordination import coordination
from harness.metrics.deadlines import best_effort, deadlines
from harness.metrics.hangs import hangs
from harness.metrics.offline_bound import bounds
from harness.results.records import ChangeRecord, GrantRecord, JobRecord, OutageRecord, RunRecords

PASSED_ON = (
    "replay_wall_s",
    "peak_memory_bytes",
    "pace_overrun_share",
    "speed_over_profile",
    "workers_lost",
    "machine_failures",
    "stragglers_removed",
    *("spares_used", "spares_missed"),
    "reference_wall_s",
    *("samples_missed", "samples_repeated", "steps_repeated"),
)
PREFIXES = ("similarity_", "resimulated_")
"""Prefixes of facts that become metrics unchanged, in addition to ``PASSED_ON``."""
VERSION = 2
"""Version of this list of metrics; it grows with every metric that runs stored earlier lack."""
SINCE = {
    "jct_best_effort_mean_s": 1,
    "jobs_finished_by_last_arrival": 1,
    "decision_latency_max_ms": 2,
}
"""First version that has a metric, if it is not 0."""


def compute(records: RunRecords) -> dict[str, float]:
    """Return every metric that applies to a run, by name, sorted."""
    window = makespan_window(records.jobs)
    num_slots = records.facts.get("num_slots")
    capacity = records.facts.get("num_devices", num_slots)
    found: dict[str, float | None] = {
        **counts(records.jobs),
        **completion(records.jobs),
        **deadlines(records.jobs),
        **best_effort(records.jobs),
        "finish_time_fairness_max": finish_time_fairness_max(records.jobs, capacity),
        "sjs_efficiency": sjs_efficiency(records.jobs),
        **rescaling(records.changes, records.facts.get("dilation", 1.0)),
        **latency(records.latencies_us),
        **progress(records),
        **hangs(records),
        **bitwise_equal(records),
        **accuracy(records),
        **coordination(records),
        **bounds(records),
        "interruptions": interruptions(records),
    }
    if window is not None and window[1] > window[0] and num_slots and capacity:
        found["cluster_efficiency_mean"] = cluster_efficiency(records.grants, window, capacity)
        found["slot_utilization_mean"] = slot_utilization(records.grants, window, num_slots)
        found |= availability(records.outages, window, num_slots)
    return {
        name: float(value)
        for name, value in sorted(found.items())
        if value is not None and math.isfinite(value)
    }


def percentile(values: Floats, percent: float) -> float | None:
    """Return a percentile by linear interpolation between nearest ranks; None without values."""
    return float(np.percentile(values, percent)) if values.size else None


def makespan_window(jobs: Sequence[JobRecord]) -> tuple[float, float] | None:
    """Return the first arrival of any job and the last finish of a finished job; None if none
    finished."""
    ends = [job.finish_s for job in jobs if finished(job) and job.finish_s is not None]
    return (min(job.arrival_s for job in jobs), max(ends)) if ends else None


def counts(jobs: Sequence[JobRecord]) -> dict[str, float | None]:
    """Return how many jobs ended in each way, and how often jobs were disturbed.

    ``jobs_cancelled``: given up by their owners, if the trace has such events. ``by_last_arrival``:
    finished when the last job arrives, because jobs that queue all finish in the end [Saxena,
    figure 7]; absent if all arrive at once. ``job_drop_ratio``: refused over submitted jobs
    [Saxena, section IV-C]. ``rescales``: changes of a running job's slots that were done.
    ``preemptions``: suspensions that the scheduler decided, except those that a loss forestalled.
    """
    if not jobs:
        return {}
    states = [job.state for job in jobs]
    return {
        "jobs_submitted": len(jobs),
        "jobs_finished": states.count(JobState.FINISHED),
        "jobs_finished_by_last_arrival": _finished_by_last_arrival(jobs),
        "jobs_refused": states.count(JobState.REFUSED),
        "jobs_failed": states.count(JobState.FAILED),
        "jobs_cancelled": states.count(JobState.CANCELLED) or None,
        "job_drop_ratio": states.count(JobState.REFUSED) / len(jobs),
        "rescales": sum(map(attrgetter("num_rescales"), jobs)),
        "preemptions": sum(map(attrgetter("num_preemptions"), jobs)),
    }


def _finished_by_last_arrival(jobs: Sequence[JobRecord]) -> int | None:
    arrivals = column(jobs, "arrival_s")
    ends = column([job for job in jobs if finished(job)], "finish_s")
    return int((ends <= arrivals.max()).sum()) if arrivals.max() > arrivals.min() else None


def completion(jobs: Sequence[JobRecord]) -> dict[str, float | None]:
    """Return completion times over finished jobs, and queueing over jobs that ever held slots.

    JCT = finish - arrival [all papers]. ``slowdown``: JCT over the run time alone at the requested
    slots [Tiresias]. ``queueing``: first start - arrival [Hu]. ``makespan``: last finish - first
    arrival [EDL, ElasticFlow].
    """
    done = [job for job in jobs if finished(job)]
    jct = column(done, "finish_s") - column(done, "arrival_s")
    slowdown = jct / column(done, "alone_s")
    queueing = column(jobs, "first_start_s") - column(jobs, "arrival_s")
    window = makespan_window(jobs)
    return {
        "jct_mean_s": mean(jct),
        "jct_median_s": percentile(jct, 50),
        "jct_p95_s": percentile(jct, 95),
        "jct_p99_s": percentile(jct, 99),
        "jct_penalised_mean_s": jct_penalised_mean_s(jobs),
        "slowdown_p95": percentile(slowdown[~np.isnan(slowdown)], 95),
        "queueing_mean_s": mean(queueing[~np.isnan(queueing)]),
        "makespan_s": window[1] - window[0] if window else None,
    }


def jct_penalised_mean_s(jobs: Sequence[JobRecord]) -> float | None:
    """Return the mean JCT over all jobs, so that refusing hard jobs does not pay.

    A job that did not finish (refused, failed, or open at the end) counts as run alone at its
    request after all others. Such jobs run from the last finish on, one after another in order of
    arrival. Cancelled jobs do not count. Ours. None if the run time alone of such a job is unknown.
    """
    jobs = [job for job in jobs if job.state != JobState.CANCELLED]
    done = [job for job in jobs if finished(job)]
    rest = sorted((job for job in jobs if not finished(job)), key=attrgetter("arrival_s", "job_id"))
    jct = float((column(done, "finish_s") - column(done, "arrival_s")).sum())
    end_s = max((job.finish_s for job in done if job.finish_s is not None), default=-math.inf)
    for job in rest:
        if job.alone_s is None:
            return None
        end_s = max(end_s, job.arrival_s) + job.alone_s
        jct += end_s - job.arrival_s
    return jct / len(jobs) if jobs else None


def jct_common_mean_s(runs: Sequence[Sequence[JobRecord]]) -> list[float] | None:
    """Return the mean JCT of each run over the jobs that finished in every run.

    It is the fair mean where schedulers refuse jobs. Ours. None if no job finished in all runs.
    """
    by_id = [{job.job_id: job for job in jobs if finished(job)} for jobs in runs]
    common = set.intersection(*(set(jobs) for jobs in by_id)) if by_id else set()
    if not common:
        return None
    means = []
    for jobs in by_id:
        chosen = [jobs[job_id] for job_id in sorted(common)]
        means.append(float((column(chosen, "finish_s") - column(chosen, "arrival_s")).mean()))
    return means


def cluster_efficiency(
    grants: Sequence[GrantRecord], window: tuple[float, float], num_slots: float
) -> float | None:
    """Return the mean over the window of sum over jobs of T(w) / T(1), over all slots [ElasticFlow,
    eq. 8].

    Slots that were down count among all slots. A device that jobs may share counts once, so two
    jobs on it can make the value more than 1. The sum runs over jobs, not devices (read literally
    eq. 8 counts a job once per device). None if a grant's speedup is unknown.
    """
    speedup = column(grants, "speedup")
    if np.isnan(speedup).any():
        return None
    return float((speedup * _inside(grants, window)).sum()) / (num_slots * _length(window))


def slot_utilization(
    grants: Sequence[GrantRecord], window: tuple[float, float], num_slots: float
) -> float:
    """Return the mean over the window of slots held over all slots [EDL, GPU utilization].

    Slots that were down count among all slots. Divided by ``slot_availability`` it is the share
    held of those that were up. Where jobs may share devices, all slots of each device count: one
    job alone on a device of two slots holds half of it.
    """
    held = np.fromiter((len(grant.slots) for grant in grants), np.float64, len(grants))
    return float((held * _inside(grants, window)).sum()) / (num_slots * _length(window))


def availability(
    outages: Sequence[OutageRecord], window: tuple[float, float], num_slots: float
) -> dict[str, float | None]:
    """Return the slot time that was up, in runs in which slots went down. Ours.

    ``outage``: slot-seconds of the window that were down. ``availability``: share of the window's
    slot time that was up.
    """
    if not outages:
        return {}
    down_s = float(_inside(outages, window).sum())
    return {
        "outage_slot_s": down_s,
        "slot_availability": 1.0 - down_s / (num_slots * _length(window)),
    }


def interruptions(records: RunRecords) -> float | None:
    """Return how often a job lost its grant with all its workers. Ours.

    None if that never happened and no slot went down.
    """
    return records.facts.get("interruptions", 0.0 if records.outages else None)


def finish_time_fairness_max(jobs: Sequence[JobRecord], num_slots: float | None) -> float | None:
    """Return the largest rho = JCT / run time on an equal isolated share, over finished jobs
    [Themis].

    The equal share of a job is slots / N. N is the mean number of submitted and not yet ended jobs
    between its arrival and its finish (itself included, so N >= 1). With its request r above the
    share the job runs slower by r / share (linear, and never faster than alone at its request). So
    the isolated time is alone_s * max(1, r * N / slots). Themis measures the isolated time; the
    linear law is ours.
    """
    done = [job for job in jobs if finished(job) and job.alone_s]
    if not done or not num_slots:
        return None
    arrival, finish = column(done, "arrival_s"), column(done, "finish_s")
    length = finish - arrival
    present = _present_integral(jobs, finish) - _present_integral(jobs, arrival)
    contention = np.ones_like(length)
    np.divide(present, length, out=contention, where=length > 0)
    slower = np.maximum(1.0, column(done, "requested_slots") * contention / num_slots)
    return float((length / (column(done, "alone_s") * slower)).max())


def sjs_efficiency(jobs: Sequence[JobRecord]) -> float | None:
    """Return optimal over actual slot time of the jobs that held slots [Saxena, section IV-C].

    Optimal: run time on one slot, for the part of the work that was done. Actual: slots times time
    held. None if a run time on one slot is unknown.
    """
    held = [job for job in jobs if job.attained_slot_s > 0]
    if not held:
        return None
    share = column(held, "samples_done") / column(held, "work_samples")
    optimal = (column(held, "single_slot_s") * share).sum()
    return float(optimal / column(held, "attained_slot_s").sum())


def rescaling(changes: Sequence[ChangeRecord], dilation: float = 1.0) -> dict[str, float | None]:
    """Return the cost of rescales, over those that were done and measured.

    Stopping time: how long the workers that stay do not train [EDL]; by direction of the rescale.
    Samples lost: ``ChangeRecord.samples_lost`` (live: ``samples_lost.py``); migrations keep
    the size and do not count. Resource loss: slots held times the period in which they do not train
    because of a rescale or migration [EDL]. It counts all slots of both sizes while the job is
    stopped, plus the added slots from the request on.

    ``dilation``: wall-clock seconds per second of the engine's clock; stopping times of live runs
    are in wall-clock seconds.
    """
    done = [change for change in changes if change.outcome == "done"]
    rescales = [change for change in done if change.kind == ChangeKind.RESCALE]
    moved = [change for change in done if change.kind == ChangeKind.MIGRATE]
    grown = [c for c in rescales if len(c.to_slots) > len(c.from_slots)]
    shrunk = [c for c in rescales if len(c.to_slots) < len(c.from_slots)]
    losses = [_slot_loss(change, dilation) for change in (*rescales, *moved)]
    known = [loss for loss in losses if loss is not None]
    return {
        "stopping_time_scale_out_mean_s": _mean_known(grown, "stopping_time_s"),
        "stopping_time_scale_in_mean_s": _mean_known(shrunk, "stopping_time_s"),
        "samples_lost_per_rescale_mean": _mean_known(rescales, "samples_lost"),
        "resource_loss_slot_s": math.fsum(known) if known else None,
    }


def latency(latencies_us: Sequence[int]) -> dict[str, float | None]:
    """Return wall-clock milliseconds of the calls of the scheduler [Hu, solution time]."""
    values = np.asarray(latencies_us, np.float64) / 1000.0
    return {
        "decision_latency_p50_ms": percentile(values, 50),
        "decision_latency_p99_ms": percentile(values, 99),
        "decision_latency_max_ms": percentile(values, 100),
    }


def progress(records: RunRecords) -> dict[str, float | None]:
    """Return the speed of the run, and the share of it that was really executed.

    ``throughput``: samples credited to all jobs over the window. ``executed_share``: steps really
    executed over all steps executed or credited. Other facts are passed on.
    """
    facts = records.facts
    window = makespan_window(records.jobs)
    samples = math.fsum(map(attrgetter("samples_done"), records.jobs))
    executed = facts.get("steps_executed", 0.0)
    steps = executed + facts.get("steps_credited", 0.0)
    wall_s = facts.get("replay_wall_s", 0.0)
    found: dict[str, float | None] = {
        "throughput_samples_per_s": samples / _length(window)
        if window and window[1] > window[0]
        else None,
        "executed_share": executed / steps if steps > 0 else None,
        "replay_events_per_s": facts["num_events"] / wall_s
        if wall_s > 0 and "num_events" in facts
        else None,
    }
    prefixed = (name for name in facts if name.startswith(PREFIXES))
    return found | {name: facts.get(name) for name in (*PASSED_ON, *prefixed)}


def _mean_known(rows: Iterable[Any], name: str) -> float | None:
    values = column(list(rows), name)
    return mean(values[~np.isnan(values)])


def _length(window: tuple[float, float]) -> float:
    return window[1] - window[0]


def _inside(periods: Sequence[GrantRecord | OutageRecord], window: tuple[float, float]) -> Floats:
    """Return the seconds of every period that lie in the window."""
    start = np.maximum(column(periods, "start_s"), window[0])
    end: Floats = np.minimum(column(periods, "end_s"), window[1])
    return np.maximum(end - start, 0.0, dtype=np.float64)


def _present_integral(jobs: Sequence[JobRecord], at_s: Floats) -> Floats:
    """Return, for each time, the integral up to it of the number of jobs submitted and not yet
    ended."""
    total = np.zeros_like(at_s)
    ends = column(jobs, "finish_s")
    for times, sign in ((column(jobs, "arrival_s"), 1.0), (ends[~np.isnan(ends)], -1.0)):
        ordered = np.sort(times)
        before = np.searchsorted(ordered, at_s, side="right")
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        total += sign * (before * at_s - sums[before])
    return total


def _slot_loss(change: ChangeRecord, dilation: float) -> float | None:
    """Return the slot-seconds that one rescale or migration took; None if it was not measured."""
    if change.stopping_time_s is None or change.ended_s is None:
        return None
    before, after = set(change.from_slots), set(change.to_slots)
    whole_s = (change.ended_s - change.requested_s) * dilation
    waiting_s = max(0.0, whole_s - change.stopping_time_s)
    return len(before | after) * change.stopping_time_s + len(after - before) * waiting_s
