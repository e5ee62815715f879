"""A simulated job whose slots lie on several hosts runs at the speed measured for that."""

import pytest

from harness.contracts.decision import Decision, Grant
from harness.profiles import load_profile
from harness.replay import replay
from tests.replay.worlds import Driver, FirstFree, cluster, engine, job, profile


def test_the_speed_follows_the_slots():
    said = profile().provenance
    config = {
        "name": "far",
        "provenance": {key: said[key] for key in said if key not in ("digest", "curves")},
        "throughput": {
            "net": {
                "device": "none",
                "samples_per_s": {8: {1: 1.0, 2: 2.0}},
                "across_hosts": {"samples_per_s": {8: {2: 1.25}}},
            }
        },
        "costs": None,
        "rescale_costs": [{"preparation_s": 0.0, "pause_s": 0.0}],
    }
    known = load_profile(config)
    where = cluster(2, 2)
    slots = {"near": (0, 1), "far": (2, 1), "one": (3,)}
    jobs = [
        job("near", slots=2, work=100, workload="net"),
        job("far", 1000.0, slots=2, work=100, workload="net"),
        job("one", 2000.0, slots=1, work=100, workload="net"),
    ]

    def rule(view):
        return Decision(
            {
                name: Grant(len(slots[name]), slots=slots[name])
                for name, known in view.jobs.items()
                if known.grant is None
            }
        )

    records = replay(
        jobs=jobs,
        cluster=where,
        scheduler=Driver(rule),
        placement=FirstFree(),
        engine=engine(where, known),
        profile=known,
    )
    took = {record.job_id: record.finish_s - record.arrival_s for record in records.jobs}
    assert took == pytest.approx({"near": 50.0, "far": 80.0, "one": 100.0})
