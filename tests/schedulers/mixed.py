"""Worlds of several device types: clusters, profiles with a speed for each, replays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.cluster import Cluster, joined_cluster, uniform_cluster
from harness.contracts.abilities import Abilities
from harness.profiles import Profile
from harness.profiles.curves import Family
from harness.replay import replay
from harness.results.records import RunRecords
from harness.trace.model.events import TraceEvent
from systems.placements.consolidated import Consolidated
from tests.replay.worlds import Mechanism, engine, profile
from tests.schedulers.world import Recorder

BATCH = 8
"""Global batch of the jobs; a virtual worker of a job with maxP of them has BATCH / maxP."""


def mixed(**counts: int) -> Cluster:
    """One host with so many devices of each type, slots in the order given."""
    parts = [
        uniform_cluster(name=name, num_hosts=1, devices_per_host=count, device_type=name)
        for name, count in counts.items()
    ]
    return joined_cluster(name="mixed", parts=parts)


def speeds(cost_s: float = 0.0, **per_slot: float) -> Profile:
    """Workload ``net``: samples per second of one slot of each type, at every batch."""
    known = profile(pause_s=cost_s)
    family = Family({BATCH: {1: next(iter(per_slot.values()))}})
    family.devices = {name: Family({BATCH: {1: speed}}) for name, speed in per_slot.items()}
    families = {**known.families, "net": family}
    return replace(known, families=families, device_types=tuple(sorted(per_slot)))


def run_mixed(
    jobs: list[Any],
    scheduler: Any,
    where: Cluster,
    known: Profile,
    *,
    truth: Profile | None = None,
    events: tuple[TraceEvent, ...] = (),
    survive: bool = True,
) -> tuple[RunRecords, Recorder]:
    """A real replay; ``truth`` is what the engine runs on, where the scheduler is mistaken."""
    recorder = Recorder(scheduler)
    mechanism = Mechanism(Abilities(True, True, True, True, survive=survive))
    records = replay(
        jobs=jobs,
        cluster=where,
        scheduler=recorder,
        placement=Consolidated(),
        engine=engine(where, truth or known, mechanism, events),
        profile=known,
    )
    return records, recorder


def held_types(records: RunRecords, where: Cluster, job_id: str) -> list[tuple[float, str]]:
    """(from when, types of its slots in their order) of a job, such as (60.0, 'v v t')."""
    return [
        (grant.start_s, " ".join(sorted(where.slots[slot].device_type for slot in grant.slots)))
        for grant in records.grants
        if grant.job_id == job_id
    ]
