"""Two jobs on one device with real workers: the scheduler that packs is the same object."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.decision import Grant
from harness.engines.live.options import Live
from harness.replay import replay
from systems.placements.consolidated import Consolidated
from systems.schedulers.gandiva import Gandiva
from tests.contracts.test_engine import BATCH, job, setup
from tests.schedulers.world import Recorder

ONE_CORE = uniform_cluster(
    name="core",
    num_hosts=1,
    devices_per_host=1,
    device_type="cpu",
    slots_per_device=2,
    cores_per_slot=1,
    num_cores=1,
    shared_speed=[1.0, 0.5],
)


@pytest.mark.long
def test_two_jobs_share_a_core_after_a_turn_each(tmp_path):
    """Steps of 50 ms, most of it waiting for an emulated device, so that two go side by side."""
    jobs = (job("a", 300), job("b", 300, arrival_s=0.5))
    world = replace(setup(tmp_path, *jobs, sample_s=0.05 / BATCH), cluster=ONE_CORE)
    config = Live(fast_forward=False)
    assert config.problems(world) == []
    recorder = Recorder(Gandiva(4.0, pack_above=1.0))
    engine = config.open(world)
    try:
        records = replay(
            jobs=jobs,
            cluster=ONE_CORE,
            scheduler=recorder,
            placement=Consolidated(),
            engine=engine,
            profile=world.profile,
        )
    finally:
        engine.close()
    for record in records.jobs:
        assert (record.state, record.samples_done) == ("finished", record.work_samples)
    laid = [
        grant
        for decision in recorder.decisions
        for grant in decision.changes.values()
        if isinstance(grant, Grant) and grant.share < 1.0
    ]
    assert laid, "nobody was laid beside another"
    held = {name: [g for g in records.grants if g.job_id == name] for name in "ab"}
    together_s = sum(
        max(0.0, min(one.end_s, other.end_s) - max(one.start_s, other.start_s))
        for one in held["a"]
        for other in held["b"]
    )
    assert together_s > 4.0, "the pair was given up"
    assert {slot for grants in held.values() for grant in grants for slot in grant.slots} == {0, 1}
