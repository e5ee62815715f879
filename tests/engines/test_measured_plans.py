"""Speeds of virtual workers where the profile was measured under the backend that runs them."""

from dataclasses import replace

import pytest

from harness.cluster import uniform_cluster
from harness.engines.simulated.job import SimulatedJob
from harness.engines.simulated.options import Simulated
from harness.engines.simulated.speeds import Speeds
from harness.profiles.curves import Family
from tests.engines.setups import setup
from tests.replay.worlds import job, profile

CLUSTER = uniform_cluster(name="cpu4", num_hosts=1, devices_per_host=4, device_type="cpu")
MEASURED = {1: 10.0, 2: 15.0, 4: 20.0}
"""Samples per second; two slots are not twice as fast as one."""


def rate(workers, under="stop_resume", **options):
    known = profile()
    known = replace(
        known,
        families={**known.families, "net": Family({8: MEASURED})},
        provenance={**known.provenance, "speeds_under": under},
    )
    spec = job("a", 0.0, 4, 120.0, workload="net", logical_workers=4)
    progress = SimulatedJob(spec)
    progress.slots = tuple(range(len(workers)))
    progress.virtual_workers = workers
    world = replace(setup(known), cluster=CLUSTER)
    return Speeds(world, **options).samples_per_s(progress)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ((4,), 10.0),
        ((2, 2), 15.0),
        ((3, 1), 10.0),  # three turns where the best spread has two
        ((1, 1, 1, 1), 20.0),
        ((2, 1, 1), 17.5),  # between two and four slots, as the curve is read everywhere
    ],
)
def test_measured_speeds_hold_for_the_best_spread(workers, expected):
    assert rate(workers) == pytest.approx(expected)


@pytest.mark.parametrize("under", ["virtual_thread", None])
def test_other_profiles_know_no_communication_unless_asked(under):
    assert rate((2, 2), under) == pytest.approx(20.0)
    assert rate((3, 1), under) == pytest.approx(40 / 3)
    assert rate((2, 2), under, follow_curve=True) == pytest.approx(15.0)


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="known: model, curve"):
        Simulated(plan_speeds="guess")
