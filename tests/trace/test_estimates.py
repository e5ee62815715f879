"""Work that is stated wrongly: what the transform draws, and who sees what."""

from dataclasses import replace

import numpy as np
import pytest

from harness.trace.generators.hu import ModelArts
from harness.trace.model.trace import TraceError
from harness.trace.transforms import TransformContext, UncertainWork
from tests.trace.examples import job, trace

CONTEXT = TransformContext(seed=11)
MANY = trace(*(job(number, float(number), duration_s=3600.0) for number in range(2000)))


def fates(changed):
    """Jobs that were disturbed, have a bug, were terminated, and are as before."""
    kinds = {"disturbed": [], "bugs": [], "terminated": [], "same": []}
    for before, after in zip(MANY.jobs, changed.jobs, strict=True):
        part = after.work_samples / before.work_samples
        if part == 1.0:
            kinds["same" if after.stated_work_ratio == 1.0 else "disturbed"].append(after)
        else:
            # Whatever becomes of a job, what is stated is its whole work.
            assert part * after.stated_work_ratio == pytest.approx(1.0)
            assert after.duration_s == pytest.approx(part * before.duration_s)
            kinds["bugs" if after.duration_s <= 300.0 else "terminated"].append(after)
    return kinds


def test_all_are_stated_up_to_a_tenth_wrong():
    kinds = fates(UncertainWork().apply(MANY, CONTEXT))
    ratios = [one.stated_work_ratio for one in kinds["disturbed"]]
    assert len(ratios) > 1995
    assert 0.9 <= min(ratios) < 0.901
    assert 1.099 < max(ratios) <= 1.1
    assert sum(ratios) / len(ratios) == pytest.approx(1.0, abs=0.005)


def test_the_harsh_mix_has_its_shares_and_its_times():
    changed = UncertainWork(disturbed=0.75, bugs=0.15, terminated=0.1).apply(MANY, CONTEXT)
    kinds = fates(changed)
    # One in twelve of the terminated ends within 300 of its 3,600 s, and counts as a bug here.
    assert len(kinds["disturbed"]) == pytest.approx(1500, abs=60)
    assert len(kinds["bugs"]) == pytest.approx(300 + 200 / 12, abs=50)
    assert len(kinds["terminated"]) == pytest.approx(200 * 11 / 12, abs=45)
    ends = [one.duration_s for one in kinds["bugs"]]
    assert sum(ends) / len(ends) == pytest.approx(150.0, abs=15.0)
    assert {"stated_work_ratio", "work_samples", "duration_s"} <= changed.generated
    assert "0.15 with a bug within 300 s" in changed.history[-1]


def test_the_same_seed_draws_the_same_and_digests_tell_them_apart():
    assert UncertainWork().apply(MANY, CONTEXT) == UncertainWork().apply(MANY, CONTEXT)
    other = UncertainWork().apply(MANY, TransformContext(seed=12))
    assert len({MANY.digest, other.digest, UncertainWork().apply(MANY, CONTEXT).digest}) == 3


def test_what_is_stated_right_leaves_the_digest_as_it_was_before_there_was_such_a_field():
    one = trace(job(1, 0.0, duration_s=10.0))
    assert one.digest == "675a28abfcc87e3b2bd910e8df1d45afdee0fac5193d1851eb85a2f709744182"
    assert trace(replace(one.jobs[0], stated_work_ratio=1.5)).digest != one.digest


def test_mistakes_are_told():
    with pytest.raises(ValueError, match=r"sum to 1\.2; a job has one fate"):
        UncertainWork(disturbed=1.0, bugs=0.2)
    with pytest.raises(ValueError, match="error is 1; it must lie in"):
        UncertainWork(error=1)
    with pytest.raises(ValueError, match="stated_work_ratio is 0; it must be finite and > 0"):
        replace(job(1, 0.0), stated_work_ratio=0)
    with pytest.raises(TraceError, match="UncertainWork: job 001 has no duration"):
        UncertainWork(disturbed=0.0, bugs=0.5).apply(trace(job(1, 0.0, duration_s=None)), CONTEXT)


def test_drawn_modelarts_jobs_can_have_the_speeds_of_the_paper():
    assert not ModelArts(count=5, num_long=3).draw(np.random.default_rng(0)).transforms
    drawn = ModelArts(count=5, num_long=3, workload="modelarts").draw(np.random.default_rng(0))
    assign, recompute = drawn.transforms
    assert assign["pool"] == ["modelarts"]
    assert recompute["_target_"].endswith("RecomputeWork")
