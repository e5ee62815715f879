"""Traces made of one trace: other users, other moments, other jobs."""

from collections import Counter
from itertools import pairwise
from statistics import fmean, pstdev

import numpy as np
import pytest
import yaml

from harness.trace.build import TRACES, load_trace
from harness.trace.model.trace import TraceError
from harness.trace.transforms import (
    DrawAnew,
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


def kinds(jobs):
    """Minutes of the jobs of 5 min or more, and of the others."""
    minutes = [one.duration_s / 60.0 for one in jobs]
    return [m for m in minutes if m >= 5.0], [m for m in minutes if m < 5.0]


def recorded():
    config = yaml.safe_load((TRACES / "modelarts_all.yaml").read_text())
    return load_trace({**config, "transforms": []}, context())


def test_traces_drawn_anew_have_what_the_paper_states_of_its_log():
    """Section 5.1: 1,252 jobs over 178,898 s; 447 of 232.6 min in the mean, the others of 1.95."""
    short_means, first = [], recorded()
    seen = {first.digest}
    for seed in range(10):
        found = DrawAnew().apply(first, context(seed))
        long, short = kinds(found.jobs)
        assert (len(long), len(short)) == (447, 805)
        assert fmean(long) == pytest.approx(fmean(kinds(first.jobs)[0]), rel=1e-6)
        assert fmean(long) == pytest.approx(232.6, rel=0.005)
        short_means.append(fmean(short))
        arrivals = [one.arrival_s for one in found.jobs]
        assert (arrivals[0], arrivals[-1]) == (0.0, pytest.approx(first.span_s))
        assert all(one.work_samples == pytest.approx(2 * one.duration_s) for one in found.jobs)
        assert {(one.requested_slots, one.max_slots) for one in found.jobs} == {(2, 16)}
        seen.add(found.digest)
    assert len(seen) == 11, "every seed another trace"
    assert fmean(short_means) == pytest.approx(fmean(kinds(first.jobs)[1]), rel=0.03)


def test_jobs_drawn_anew_have_the_shape_that_is_asked_for():
    logs, gaps, when = [], [], []
    for seed in range(10):
        found = DrawAnew(sigma=0.5).apply(recorded(), context(seed))
        is_long = np.array([one.duration_s >= 300.0 for one in found.jobs])
        arrivals = np.array([one.arrival_s for one in found.jobs])
        logs += [np.log(m) for m in kinds(found.jobs)[0]]
        gaps += [after - before for before, after in pairwise(arrivals.tolist())]
        when.append(np.corrcoef(arrivals, is_long)[0, 1])
    assert pstdev(logs) == pytest.approx(0.5, rel=0.05), "hardly any is below 5 min"
    assert pstdev(gaps) == pytest.approx(fmean(gaps), rel=0.05), "as of a Poisson process"
    assert abs(fmean(when)) < 0.03


def test_a_job_drawn_anew_is_like_one_of_its_kind():
    """Long jobs of one owner on 4 slots, short ones of another on 1."""
    of_two = trace(
        *(
            job(number, 100.0 * number, slots=4, duration_s=900.0 + number, owner="long")
            if number % 3 == 0
            else job(number, 100.0 * number, slots=1, duration_s=20.0, owner="short")
            for number in range(60)
        )
    )
    found = DrawAnew().apply(of_two, context(1))
    assert Counter(one.owner for one in found.jobs) == {"long": 20, "short": 40}
    for one in found.jobs:
        assert (one.owner == "long") == (one.duration_s >= 300.0) == (one.requested_slots == 4)
    assert found.digest == DrawAnew().apply(of_two, context(1)).digest
    assert "20 of 928.5 s and 40 of 20 s in the mean" in found.history[-1]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"sigma": 0.0}, "sigma is 0"),
        ({"split_s": -1.0}, "split_s is -1"),
        ({"day_share": 1.5}, "day_share is 1.5; give 0 to 1"),
    ],
)
def test_nothing_is_drawn_by_options_that_mean_nothing(options, fact):
    with pytest.raises(ValueError, match=fact):
        DrawAnew(**options)


@pytest.mark.parametrize(
    ("jobs", "fact"),
    [
        ([job(0, 0.0), job(1, 0.0)], "all arrive at once"),
        ([job(0, 0.0, duration_s=None), job(1, 1.0)], "DrawAnew"),
        ([job(0, 0.0), job(1, 1.0, deadline_s=9.0)], "1 jobs of example have deadlines"),
        ([job(0, 0.0, duration_s=250.0), job(1, 1.0, duration_s=200.0)], "225 s in the mean"),
    ],
)
def test_what_cannot_be_drawn_anew_is_refused(jobs, fact):
    with pytest.raises(TraceError, match=fact):
        DrawAnew().apply(trace(*jobs), context())
