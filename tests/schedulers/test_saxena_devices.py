"""Saxena et al., section II-D: an autoscaler's devices are alike, and only they are scheduled."""

from __future__ import annotations

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.decision import Grant
from systems.schedulers.saxena_dp import SaxenaDp
from tests.replay.worlds import cluster
from tests.schedulers.test_saxena_dp import P100, category_1
from tests.schedulers.world import run


@pytest.mark.parametrize("cores_per_slot", [1, 4, 6])
def test_cores_constrain_nothing(cores_per_slot):
    """K80 with 4 cores, V100 with 6, or fewer than there are slots: the same decisions."""
    jobs = [category_1(f"j{number}", 200.0 * number) for number in range(12)]
    where = uniform_cluster(
        name="c",
        num_hosts=1,
        devices_per_host=10,
        device_type="test",
        cores_per_slot=cores_per_slot,
        num_cores=6,
    )
    _, pinned = run(jobs, SaxenaDp(), where, known=P100)
    _, free = run(jobs, SaxenaDp(), cluster(1, 10), known=P100)
    assert [decision.changes for decision in pinned.decisions] == [
        decision.changes for decision in free.decisions
    ]
    assert any(decision.changes for decision in free.decisions)


def test_which_devices_a_job_has_is_not_its_affair():
    """It decides about their number alone: grants name neither slots nor a type."""
    jobs = [category_1(f"j{number}", 200.0 * number) for number in range(6)]
    _, recorder = run(jobs, SaxenaDp(), cluster(2, 5), known=P100)
    changes = [change for one in recorder.decisions for change in one.changes.values()]
    grants = [change for change in changes if isinstance(change, Grant)]
    assert grants
    assert {(grant.slots, grant.device_type, grant.share) for grant in grants} == {(None, None, 1)}
