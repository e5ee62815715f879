"""Timeline of a run from its records: slots, jobs with their changes, counters, live workers."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from harness.cluster import Cluster
from harness.configuration.instantiate import build
from harness.errors import UserError
from harness.results.records import ChangeRecord, GrantRecord, JobRecord, StepRecord
from reports.perfetto.events import Events, Track
from reports.perfetto.phases import laid_out
from reports.runs.selection import ReportRun

_SKIPS = ("idle_skipped_s", "fast_forwarded_s")
"""Facts of live runs: time by which the run's clock went ahead of the wall clock."""
_UNSUCCESSFUL = ("refused", "failed", "cancelled")
_WALL_CLOCK_TABLES = ("steps", "faults", "slowings", "accusations", "system")


def microseconds(time_s: float) -> int:
    """Return a time on the run's clock as the timeline has it."""
    return round(time_s * 1e6)


def timeline(run: ReportRun) -> Events:
    """Return all events of a run that has its tables of jobs, slots, changes and outages."""
    events = Events()
    jobs = sorted(run.jobs, key=attrgetter("arrival_s", "job_id"))
    held = _by_job(run.grants)
    end_us = _end_us(run)
    waiting = {job.job_id: _waiting(job, held.get(job.job_id, []), end_us) for job in jobs}
    _add_counters(events, run, waiting)
    _add_slots(events, run)
    _add_jobs(events, run, jobs, held, waiting, end_us)
    _add_workers(events, run, jobs)
    return events


def levels(periods: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Return the sum of the widths of current periods, from each moment at which it changes.

    Args:
        periods: start, end and width of each.
    """
    steps: dict[int, int] = {}
    for start_us, end_us, width in periods:
        steps[start_us] = steps.get(start_us, 0) + width
        steps[end_us] = steps.get(end_us, 0) - width
    found: dict[int, int] = {}
    level = 0
    for at_us in sorted(steps):
        level += steps[at_us]
        if steps[at_us] or not found:
            found[at_us] = level
    return found


def _by_job(grants: Sequence[GrantRecord]) -> dict[str, list[GrantRecord]]:
    found: dict[str, list[GrantRecord]] = {}
    for grant in sorted(grants, key=attrgetter("start_s")):
        found.setdefault(grant.job_id, []).append(grant)
    return found


def _end_us(run: ReportRun) -> int:
    """Return the time of the last record on the run's clock."""
    times = [grant.end_s for grant in run.grants] + [outage.end_s for outage in run.outages]
    times += [job.arrival_s if job.finish_s is None else job.finish_s for job in run.jobs]
    times += [c.requested_s if c.ended_s is None else c.ended_s for c in run.changes]
    return microseconds(max(times, default=0.0))


def _life(job: JobRecord, end_us: int) -> tuple[int, int]:
    start_us = microseconds(job.arrival_s)
    return start_us, end_us if job.finish_s is None else microseconds(job.finish_s)


def _waiting(job: JobRecord, held: Sequence[GrantRecord], end_us: int) -> list[tuple[int, int]]:
    """Return the periods in which a job was there and held no slots."""
    start_us, stop_us = _life(job, end_us)
    ends = [start_us, *(microseconds(grant.end_s) for grant in held)]
    starts = [*(microseconds(grant.start_s) for grant in held), stop_us]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if start > end]


def _add_counters(
    events: Events, run: ReportRun, waiting: Mapping[str, Sequence[tuple[int, int]]]
) -> None:
    pid = events.group("cluster")
    used = (
        (microseconds(grant.start_s), microseconds(grant.end_s), len(grant.slots))
        for grant in run.grants
    )
    events.counter(pid, "slots", "in use", levels(used))
    queue = ((start, end, 1) for periods in waiting.values() for start, end in periods)
    events.counter(pid, "jobs", "waiting", levels(queue))
    if run.outages:
        down = ((microseconds(o.start_s), microseconds(o.end_s), 1) for o in run.outages)
        events.counter(pid, "slots", "down", levels(down))


def _add_slots(events: Events, run: ReportRun) -> None:
    """Add a group for each host and a track for each slot, with the jobs that held it."""
    tracks: dict[int, Track] = {}
    for host, slots in _hosts(run):
        pid = events.group(host)
        tracks |= {slot: events.track(pid, f"slot {slot}") for slot in slots}
    for grant in run.grants:
        start_us, end_us = microseconds(grant.start_s), microseconds(grant.end_s)
        # The ids of all its slots are on the job's track: here they would square the file's size.
        workload = run.workloads.get(grant.job_id)
        about = {"workload": workload, "num_slots": len(grant.slots), **_about(grant)}
        for rank, slot in enumerate(grant.slots):
            events.slice(tracks[slot], "slot", grant.job_id, start_us, end_us, rank=rank, **about)
    for outage in run.outages:
        start_us, end_us = microseconds(outage.start_s), microseconds(outage.end_s)
        track = tracks[outage.slot]
        events.slice(track, "outage", "slot down", start_us, end_us)
        events.instant(track, "fault", f"slot {outage.slot} went down", start_us)


def _hosts(run: ReportRun) -> list[tuple[str, list[int]]]:
    """Return the name and the slots of each host.

    All slots are in one group if the cluster of the configuration cannot be built here. Schedulers
    that share no devices see fewer slots than the configured cluster has.
    """
    used = {slot for grant in run.grants for slot in grant.slots}
    used |= {outage.slot for outage in run.outages}
    num_slots = max(int(run.stored.facts.get("num_slots", 0)), max(used, default=-1) + 1)
    try:
        cluster = build(run.stored.config.get("cluster", {}), "cluster", "cluster")
    except UserError:
        cluster = None
    if isinstance(cluster, Cluster):
        for shape in (cluster, cluster.unshared()):
            if shape.num_slots == num_slots:
                return [(host.name, [*host.slots]) for host in shape.hosts]
    return [("slots", [*range(num_slots)])]


def _about(grant: GrantRecord) -> dict[str, Any]:
    return {"global_batch": grant.global_batch, "speedup": _finite(grant.speedup)}


def _add_jobs(
    events: Events,
    run: ReportRun,
    jobs: Sequence[JobRecord],
    held: Mapping[str, Sequence[GrantRecord]],
    waiting: Mapping[str, Sequence[tuple[int, int]]],
    end_us: int,
) -> None:
    """Add a track for each job: its life, in it its grants, in them its changes and their phases.

    A grant is cut where a change begins and ends, so each change lies within one grant.
    """
    pid = events.group("jobs")
    changes: dict[str, list[ChangeRecord]] = {}
    for change in run.changes:
        changes.setdefault(change.job_id, []).append(change)
    for job in jobs:
        track = events.track(pid, job.job_id)
        start_us, stop_us = _life(job, end_us)
        events.slice(
            track, "job", job.job_id, start_us, stop_us,
            workload=job.workload, owner=job.owner or None, state=job.state,
            reason=job.reason or None, requested_slots=job.requested_slots,
            global_batch=job.global_batch, deadline_s=_finite(job.deadline_s),
        )  # fmt: skip
        for begin_us, until_us in waiting[job.job_id]:
            events.slice(track, "waiting", "waiting", begin_us, until_us)
        for grant in held.get(job.job_id, ()):
            name = _count(len(grant.slots))
            begin_us, until_us = microseconds(grant.start_s), microseconds(grant.end_s)
            ids = _ids(grant.slots)
            events.slice(track, "grant", name, begin_us, until_us, slots=ids, **_about(grant))
        for change in changes.get(job.job_id, ()):
            _add_change(events, track, change, end_us, run.dilation)
        if job.state in _UNSUCCESSFUL:
            events.instant(track, "end", job.state, stop_us, reason=job.reason or None)
        if job.deadline_s is not None and microseconds(job.deadline_s) <= end_us:
            at_us = microseconds(job.deadline_s)
            events.instant(track, "deadline", "deadline", at_us, kind=job.deadline_kind)


def _add_change(
    events: Events, track: Track, change: ChangeRecord, run_end_us: int, dilation: float
) -> None:
    start_us = microseconds(change.requested_s)
    end_us = run_end_us if change.ended_s is None else microseconds(change.ended_s)
    name = f"{change.kind} {len(change.from_slots)}→{len(change.to_slots)}"
    if change.outcome != "done":
        name += f" ({change.outcome})"
    events.slice(
        track, "change", name, start_us, end_us,
        change_id=change.change_id, outcome=change.outcome,
        from_slots=_ids(change.from_slots), to_slots=_ids(change.to_slots),
        stopping_time_s=_finite(change.stopping_time_s), samples_lost=_finite(change.samples_lost),
    )  # fmt: skip
    for phase in laid_out(change.phases_s, start_us, end_us, dilation):
        share = None if phase.drawn_share == 1.0 else round(phase.drawn_share, 6)
        events.slice(
            track, "phase", phase.name, phase.start_us, phase.end_us,
            recorded_s=phase.recorded_s, drawn_share=share,
        )  # fmt: skip


def _add_workers(events: Events, run: ReportRun, jobs: Sequence[JobRecord]) -> None:
    """Add what live workers recorded on the wall clock: steps, faults and the machine's load.

    The run's clock goes ahead of the wall clock where steps are credited or idle time is skipped.
    Records do not say when, so the name of the group says by how much in all.
    """
    tables: dict[str, Sequence[Any]] = {
        name: [] if name in run.stored.left_out else run.stored.rows(name)
        for name in _WALL_CLOCK_TABLES
    }
    if not any(tables.values()):
        return
    skipped_s = sum(run.stored.facts.get(name, 0.0) for name in _SKIPS)
    name = "workers"
    if skipped_s > 0:
        name += f" (wall clock; the run's clock skipped {skipped_s:,.1f} s more)"
    pid = events.group(name)

    def at_us(wall_s: float) -> int:
        return microseconds(wall_s / run.dilation)

    steps: dict[str, list[StepRecord]] = {}
    for step in tables["steps"]:
        steps.setdefault(step.job_id, []).append(step)
    tracks: dict[str, Track] = {}

    def track_of(job_id: str) -> Track:
        if job_id not in tracks:
            tracks[job_id] = events.track(pid, f"{job_id} steps")
        return tracks[job_id]

    for job in jobs:
        if job.job_id in steps:
            _add_steps(events, track_of(job.job_id), steps[job.job_id], run.dilation)
    for fault in tables["faults"]:
        track = track_of(_job_of(fault.worker, run.workloads))
        events.instant(
            track, "fault", fault.signal, at_us(fault.at_s),
            worker=fault.worker, struck_in=fault.struck_in,
        )  # fmt: skip
    for slow in tables["slowings"]:
        what = "slowed" if slow.speed < 1 else "removed as slow"
        events.instant(
            track_of(_job_of(slow.worker, run.workloads)), "fault", what, at_us(slow.at_s),
            worker=slow.worker, speed=slow.speed, detected_s=slow.detected_s,
        )  # fmt: skip
    for accusation in tables["accusations"]:
        events.instant(
            track_of(accusation.job_id), "fault", "killed as silent", at_us(accusation.at_s),
            worker=accusation.worker, accuser=accusation.accuser, silent_s=accusation.silent_s,
        )  # fmt: skip
    samples = tables["system"]
    for what, unit, field in (("CPU", "%", "cpu_percent"), ("memory", "bytes", "memory_bytes")):
        events.counter(pid, what, unit, {at_us(one.at_s): getattr(one, field) for one in samples})


def _add_steps(events: Events, track: Track, steps: Sequence[StepRecord], dilation: float) -> None:
    ordered = sorted(steps, key=attrgetter("started_s"))
    starts = [microseconds(step.started_s / dilation) for step in ordered]
    ends = [microseconds((s.started_s + s.duration_s) / dilation) for s in ordered]
    # A worker that leaves can end its last step when another has begun the next one.
    ends = [
        min(end, later) for end, (_, later) in zip(ends, pairwise(starts), strict=False)
    ] + ends[-1:]
    for step, start_us, end_us in zip(ordered, starts, ends, strict=True):
        events.slice(
            track, "step", f"step {step.step}", start_us, end_us,
            num_workers=step.num_workers, global_batch=step.global_batch,
            duration_s=step.duration_s, loss=_finite(float.fromhex(step.loss_hex)),
        )  # fmt: skip


def _job_of(worker: str, job_ids: Container[str]) -> str:
    """Return the job of a worker by the name of its process, ``JOB.WORKER``; a job's id may have
    dots, too."""
    name = worker
    while name and name not in job_ids:
        name = name.rpartition(".")[0]
    return name or worker


def _ids(slots: Sequence[int]) -> str:
    return " ".join(map(str, slots))


def _count(number: int) -> str:
    return f"{number} slot{'s' * (number != 1)}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
