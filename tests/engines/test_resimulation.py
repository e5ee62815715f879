"""A live run simulated again with the speeds that its own workers had."""

from dataclasses import replace

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.scheduler import Knowledge
from harness.engines.live.measured_speed import own_speeds
from harness.profiles.curves import Family
from harness.results.records import FaultRecord, JobRecord, RunRecords, SlowingRecord
from harness.run.resimulation import resimulated
from systems.schedulers.fifo import Fifo
from tests.engines.setups import setup
from tests.engines.test_measured_speed import KNOWN, steps
from tests.replay.worlds import FirstFree, job

NET = job("a", workload="net", work=160.0, slots=1)
"""20 steps: 10 s by the profile on one slot."""


def live(found, **facts):
    """Records of a run that made these steps."""
    return RunRecords(steps=found, facts={"speed_over_profile": 1.0, **facts})


def again(records, scheduler=None, jobs=(NET,)):
    return resimulated(setup(KNOWN, *jobs), records, scheduler or Fifo(), FirstFree(), KNOWN)


def test_the_speeds_are_those_of_the_runs_own_steps():
    twice_as_fast = live(steps(num_workers=1, count=20, every_s=0.25))
    assert again(twice_as_fast) == pytest.approx(
        {"resimulated_jct_mean_s": 5.0, "resimulated_makespan_s": 5.0}
    )


def test_single_jobs_are_compared_too():
    """It finished after 4 s, and by the speed of its steps it would have after 5."""
    ended = JobRecord(
        job_id="a", workload="net", owner="", requested_slots=1, global_batch=8,
        work_samples=160.0, deadline_s=None, deadline_kind="none", arrival_s=0.0, finish_s=4.0,
        state="finished", first_start_s=0.0, samples_done=160.0, attained_slot_s=4.0,
        executed_s=4.0, num_rescales=0, num_preemptions=0, alone_s=None, fastest_alone_s=None,
    )  # fmt: skip
    records = live(steps(num_workers=1, count=20, every_s=0.25))
    records.jobs = [ended]
    assert again(records)["resimulated_jct_error_p95"] == pytest.approx(0.25)
    records.jobs = [replace(ended, state="failed")]
    assert "resimulated_jct_error_p95" not in again(records)


def test_where_the_run_never_was_its_overall_speed_counts():
    both = replace(NET, requested_slots=2)
    alone = live(steps(num_workers=1, count=20, every_s=0.25))
    assert again(alone, jobs=(both,))["resimulated_jct_mean_s"] == pytest.approx(2.5)


def test_the_scheduler_sees_the_profiles_speeds_and_not_these():
    seen = []

    class Curious(Fifo):
        needs = frozenset({Knowledge.THROUGHPUT})

        def decide(self, view):
            seen.extend(found.throughput.samples_per_s(1) for found in view.jobs.values())
            return super().decide(view)

    again(live(steps(num_workers=1, count=20, every_s=0.25)), Curious())
    assert set(seen) == {16.0}


def test_a_run_with_credited_steps_is_not_simulated_again():
    assert not again(live(steps(num_workers=1, count=20, every_s=0.25), steps_credited=5.0))


@pytest.mark.parametrize(
    "on_purpose",
    [
        {"faults": [FaultRecord(1.0, "SIGKILL", "a-0", "steady", -1, 1)]},
        {"slowings": [SlowingRecord(1.0, 2.0, "a-0", 0.75, 0.25, 1, None, None)]},
    ],
    ids=["struck", "slowed"],
)
def test_nor_is_one_whose_workers_were_struck_or_slowed_on_purpose(on_purpose):
    found = live(steps(num_workers=1, count=20, every_s=0.25))
    assert again(found)
    assert not again(replace(found, **on_purpose))


def test_nor_one_whose_jobs_may_share_devices():
    found = live(steps(num_workers=1, count=20, every_s=0.25))
    world = setup(KNOWN, NET)
    shared = uniform_cluster(
        name="shared", num_hosts=1, devices_per_host=2, slots_per_device=2, device_type="test",
        shared_speed=[1.0, 0.6],
    )  # fmt: skip
    assert resimulated(world, found, Fifo(), FirstFree(), KNOWN)
    on_shared = replace(world, cluster=shared)
    assert not resimulated(on_shared, found, Fifo(), FirstFree(), KNOWN)


def test_nor_is_one_whose_speed_is_not_known():
    paced = RunRecords(steps=steps(num_workers=1, count=20, every_s=0.25))
    assert not again(paced)


def test_nor_one_on_device_types_of_different_speeds():
    found = steps(num_workers=1, count=20, every_s=0.25)
    assert own_speeds(replace(KNOWN, device_types=("fast", "slow")), [NET], {"a": found}) is None
    assert own_speeds(KNOWN, [NET], {}) is None


def test_every_size_has_a_speed_of_its_own():
    slow_alone = steps(num_workers=1, count=24, every_s=1.0)
    quick_together = steps(num_workers=2, count=24, every_s=0.125, begin_s=60.0)
    own = own_speeds(KNOWN, [NET], {"a": [*slow_alone, *quick_together]})
    curve = own.throughput("net", 8)
    assert curve.samples_per_s(1) == pytest.approx(8.0)
    assert curve.samples_per_s(2) == pytest.approx(64.0)
    assert isinstance(own.families["net"], Family)
    assert KNOWN.throughput("net", 8).samples_per_s(1) == 16.0
