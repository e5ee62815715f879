"""Traces made of one trace: other users, other moments."""

from collections import Counter

import pytest

from harness.trace.trace import TraceError
from harness.trace.transforms import (
    ResampleOwners,
    ShakeArrivals,
    ShuffleArrivals,
    TransformContext,
)
from tests.trace.examples import job, trace

DAY_S = 86400.0
MANY = trace(
    *(
        job(number, number * 3600.0, deadline_s=number * 3600.0 + 500.0, owner=f"u{number % 7}")
        for number in range(140)
    )
)


def context(seed=0):
    return TransformContext(seed=seed)


def original(name):
    return MANY.jobs[int(name.partition("~")[0])]


@pytest.mark.parametrize("seed", range(10))
def test_owners_come_with_all_their_jobs(seed):
    found = ResampleOwners().apply(MANY, context(seed))
    assert found.jobs[0].arrival_s == 0.0
    counts = Counter(job.owner for job in found.jobs)
    assert all(count % 20 == 0 for count in counts.values())
    assert sum(counts.values()) == 140
    assert len({job.job_id for job in found.jobs}) == 140
    for each in found.jobs:
        source = original(each.job_id)
        assert each.deadline_s - each.arrival_s == pytest.approx(500.0)
        assert each.owner == source.owner


@pytest.mark.parametrize("seed", range(10))
def test_copies_keep_their_hours(seed):
    found = ResampleOwners().apply(MANY, context(seed))
    moves = {
        round((each.arrival_s - original(each.job_id).arrival_s) % DAY_S, 3) for each in found.jobs
    }
    assert len(moves) == 1  # one shift for all, which makes the first arrival 0


def test_copies_at_the_same_moments():
    found = ResampleOwners(shift_days=False).apply(MANY, context())
    moves = {each.arrival_s - original(each.job_id).arrival_s for each in found.jobs}
    assert len(moves) == 1


def test_one_owner_cannot_be_resampled():
    with pytest.raises(TraceError, match="all jobs of example belong to ''"):
        ResampleOwners().apply(trace(job(0, 0.0), job(1, 1.0)), context())


def test_shaken_arrivals():
    found = ShakeArrivals(scale_s=600.0).apply(MANY, context(3))
    assert found.jobs[0].arrival_s == 0.0
    moves = [each.arrival_s - original(each.job_id).arrival_s for each in found.jobs]
    middle = sorted(moves)[70]
    sizes = [abs(move - middle) for move in moves]
    assert sum(sizes) / len(sizes) == pytest.approx(600.0, rel=0.3)
    assert all(each.deadline_s - each.arrival_s == pytest.approx(500.0) for each in found.jobs)
    assert found.digest == ShakeArrivals(scale_s=600.0).apply(MANY, context(3)).digest
    assert found.digest != ShakeArrivals(scale_s=600.0).apply(MANY, context(4)).digest
    assert "seed 3" in found.history[-1]


def test_noise_needs_a_size():
    with pytest.raises(ValueError, match="scale_s is 0"):
        ShakeArrivals(scale_s=0)


def test_shuffled_arrivals_are_the_same_ones_dealt_to_others():
    found = ShuffleArrivals().apply(MANY, context(3))
    assert [one.arrival_s for one in found.jobs] == [one.arrival_s for one in MANY.jobs]
    assert sorted(one.job_id for one in found.jobs) == sorted(one.job_id for one in MANY.jobs)
    before = {one.job_id: one for one in MANY.jobs}
    assert all(one.work_samples == before[one.job_id].work_samples for one in found.jobs)
    assert any(one.arrival_s != before[one.job_id].arrival_s for one in found.jobs)
    assert found.digest == ShuffleArrivals().apply(MANY, context(3)).digest
    assert found.digest != ShuffleArrivals().apply(MANY, context(4)).digest
