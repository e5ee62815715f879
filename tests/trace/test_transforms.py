import math
from dataclasses import replace

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.job import DeadlineKind
from harness.profiles import ProfileError
from harness.trace.model.similarity import similarity
from harness.trace.model.trace import TraceError
from harness.trace.transforms import (
    AssignBatch,
    AssignDeadlines,
    AssignWorkloads,
    BatchPerSlot,
    CapDemand,
    CompressArrivals,
    FirstJobs,
    KeepDurations,
    LogicalWorkers,
    NameJobs,
    RecomputeDurations,
    RecomputeWork,
    ScaleDurations,
    ScaleLoad,
    SetElastic,
    SlotRange,
    TimeWindow,
    TransformContext,
)
from tests.trace.examples import job, trace

CONTEXT = TransformContext(seed=7)
THREE = trace(
    job(1, 0.0, slots=1, duration_s=100.0, deadline_s=150.0),
    job(2, 40.0, slots=8, duration_s=200.0, deadline_s=140.0),
    job(3, 100.0, slots=3, duration_s=None),
)


class Speeds:
    """A profile of samples per second by workload, batch and slots; others are unknown."""

    name = "by_hand"

    def __init__(self, cells):
        self._cells = cells

    def throughput(self, workload, global_batch):
        if (workload, global_batch) not in self._cells:
            raise ProfileError([f"no throughput curve for workload {workload!r}"])
        curve = Speeds(self._cells)
        curve.samples_per_s = self._cells[workload, global_batch].__getitem__
        return curve


def arrivals(result):
    return [j.arrival_s for j in result.jobs]


def deadlines(result):
    return [j.deadline_s for j in result.jobs]


def problems(transform, of=THREE, context=CONTEXT):
    with pytest.raises(TraceError) as caught:
        transform.apply(of, context)
    return [str(problem) for problem in caught.value.problems]


def test_time_window_keeps_its_start_not_its_end():
    result = TimeWindow(start_s=40.0, end_s=100.0).apply(THREE, CONTEXT)
    assert [j.job_id for j in result.jobs] == ["002"]
    assert (arrivals(result), deadlines(result)) == ([0.0], [100.0])
    assert result.history == ("TimeWindow: 1 of 3 jobs, arrived in [40, 100) s",)
    assert len(TimeWindow().apply(THREE, CONTEXT).jobs) == 3


def test_time_window_without_jobs_says_where_they_are():
    (problem,) = problems(TimeWindow(start_s=500.0))
    assert "arrivals run from 0 to 100 s, move the window" in problem


def test_first_jobs():
    result = FirstJobs(count=2, skip=1).apply(THREE, CONTEXT)
    assert [j.job_id for j in result.jobs] == ["002", "003"]
    assert (arrivals(result), deadlines(result)) == ([0.0, 60.0], [100.0, None])
    assert "more than the 3 jobs" in problems(FirstJobs(count=3, skip=1))[0]


def test_keep_durations():
    both = trace(*THREE.jobs[:2])
    result = KeepDurations(min_s=150.0).apply(both, CONTEXT)
    assert [j.job_id for j in result.jobs] == ["002"]
    assert (arrivals(result), deadlines(result)) == ([0.0], [100.0])
    assert result.history == ("KeepDurations: 1 of 2 jobs, of [150, inf) s",)
    assert [j.job_id for j in KeepDurations(max_s=200.0).apply(both, CONTEXT).jobs] == ["001"]
    assert "is that long, widen the range" in problems(KeepDurations(min_s=1e6), both)[0]
    assert "job 003 has no duration" in problems(KeepDurations())[0]


def test_compress_arrivals_keeps_the_distance_to_the_deadline():
    result = CompressArrivals(factor=4.0).apply(THREE, CONTEXT)
    assert arrivals(result) == [0.0, 10.0, 25.0]
    assert deadlines(result) == [150.0, 110.0, None]
    assert [j.duration_s for j in result.jobs] == [100.0, 200.0, None]


def test_cap_demand_keeps_work_and_stretches_or_keeps_duration():
    stretched = CapDemand(max_slots=2).apply(THREE, CONTEXT)
    assert [j.requested_slots for j in stretched.jobs] == [1, 2, 2]
    assert [j.duration_s for j in stretched.jobs] == [100.0, 800.0, None]
    assert [j.work_samples for j in stretched.jobs] == [1000.0] * 3
    assert "2 of 3 jobs cut to 2 slots" in stretched.history[0]
    kept = CapDemand(max_slots=2, duration="keep").apply(THREE, CONTEXT)
    assert [j.duration_s for j in kept.jobs] == [100.0, 200.0, None]


def test_cap_demand_cuts_a_range_that_starts_above_it():
    result = CapDemand(max_slots=2).apply(
        trace(job(1, 0.0, slots=8, min_slots=4, max_slots=16)), CONTEXT
    )
    assert (result.jobs[0].min_slots, result.jobs[0].max_slots) == (2, 16)


def test_set_elastic_and_slot_range():
    fixed = SetElastic(elastic=False).apply(THREE, CONTEXT)
    assert not any(j.elastic for j in fixed.jobs)
    assert fixed.generated == {"elastic"}
    ranged = SlotRange(min_slots=1, max_slots=8).apply(THREE, CONTEXT)
    assert {(j.min_slots, j.max_slots) for j in ranged.jobs} == {(1, 8)}
    found = problems(SlotRange(min_slots=2, max_slots=4))
    assert len(found) == 2
    assert "job 002 asks for 8 slots, outside [2, 4]" in found[1]


def test_logical_workers_are_at_least_as_many_as_slots_are_asked_for():
    result = LogicalWorkers(least=4).apply(THREE, CONTEXT)
    assert [(j.requested_slots, j.logical_workers) for j in result.jobs] == [(1, 4), (8, 8), (3, 4)]
    assert result.generated == {"logical_workers"}
    assert result.history == ("LogicalWorkers: 4 to 8, 4 at least",)


def test_workloads_round_robin_with_batches():
    transform = AssignWorkloads(pool=["b", "a"], batch={"a": 64, "b": 16})
    result = transform.apply(THREE, CONTEXT)
    assert [(j.workload, j.global_batch) for j in result.jobs] == [("b", 16), ("a", 64), ("b", 16)]
    assert result.generated == {"workload", "global_batch"}
    assert result.history == ("AssignWorkloads: round_robin of b, a; global batch: a 64, b 16",)


def test_workloads_of_the_run_and_their_absence():
    context = TransformContext(workloads=("x", "y"))
    result = AssignWorkloads().apply(THREE, context)
    assert [j.workload for j in result.jobs] == ["x", "y", "x"]
    assert [j.global_batch for j in result.jobs] == [32, 32, 32]
    assert "name some in pool" in problems(AssignWorkloads())[0]


def test_random_workloads_follow_the_seed():
    many = trace(*(job(n, float(n)) for n in range(64)))
    transform = AssignWorkloads(pool=["a", "b", "c"], how="random")

    def drawn(seed):
        return [j.workload for j in transform.apply(many, TransformContext(seed=seed)).jobs]

    assert transform.apply(many, CONTEXT).history[0].endswith(", seed 7")
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert set(drawn(1)) == {"a", "b", "c"}


def test_renamed_workloads():
    result = AssignWorkloads(how="rename", renames={"resnet50": "vgg16"}).apply(THREE, CONTEXT)
    assert {j.workload for j in result.jobs} == {"vgg16"}
    (problem,) = problems(AssignWorkloads(how="rename", renames={"resnet": "vgg16"}))
    assert "workload 'resnet50' (job 003) has no entry in renames" in problem


def test_a_workload_without_batch_is_named():
    (problem,) = problems(AssignWorkloads(pool=["a", "b"], batch={"a": 1}))
    assert "no batch for workload 'b'; known: a" in problem


def test_assign_batch_with_a_range():
    result = AssignBatch(batch=64, min_global_batch=16, max_global_batch=256).apply(THREE, CONTEXT)
    assert {(j.global_batch, j.batch_range) for j in result.jobs} == {(64, (16, 256))}
    alone = AssignBatch(batch={"resnet50": 128}).apply(result, CONTEXT)
    assert {j.batch_range for j in alone.jobs} == {(128, 128)}


def test_the_batch_per_slot_counts_the_requested_slots():
    result = BatchPerSlot(batch={"resnet50": 32}).apply(THREE, CONTEXT)
    assert [j.global_batch for j in result.jobs] == [32, 256, 96]
    assert result.generated == {"global_batch"}
    (problem,) = problems(BatchPerSlot(batch={"a": 1}))
    assert "BatchPerSlot: no batch for workload 'resnet50'" in problem


def test_recompute_work_uses_the_requested_slots():
    jobs = trace(job(1, 0.0, slots=1), job(2, 1.0, slots=2, duration_s=50.0))
    profile = Speeds({("resnet50", 32): {1: 10.0, 2: 16.0}})
    result = RecomputeWork().apply(jobs, TransformContext(profile=profile))
    assert [j.work_samples for j in result.jobs] == [1000.0, 800.0]
    assert result.generated == {"work_samples"}
    assert result.history == ("RecomputeWork: duration x throughput of profile by_hand",)


def test_recompute_work_says_all_that_it_lacks():
    assert "--profile NAME" in problems(RecomputeWork())[0]
    profile = Speeds({("resnet50", 32): {1: 10.0, 3: 0.0, 8: 1.0}})
    found = problems(RecomputeWork(), context=TransformContext(profile=profile))
    assert len(found) == 2
    assert "job 003 has no duration" in found[0]
    assert "has 0.0 samples/s for resnet50 with batch 32 on 3 slots" in found[1]
    unknown = problems(RecomputeWork(), context=TransformContext(profile=Speeds({})))
    assert sum("no throughput curve" in problem for problem in unknown) == 1


def test_durations_are_what_the_work_takes_on_the_request():
    jobs = trace(job(1, 0.0, slots=1), job(2, 1.0, slots=2, work_samples=400.0, duration_s=None))
    profile = Speeds({("resnet50", 32): {1: 10.0, 2: 16.0}})
    result = RecomputeDurations().apply(jobs, TransformContext(profile=profile))
    assert [j.duration_s for j in result.jobs] == [100.0, 25.0]
    assert result.generated == {"duration_s"}
    assert result.history == ("RecomputeDurations: work / throughput of profile by_hand",)
    again = RecomputeWork().apply(result, TransformContext(profile=profile))
    assert [j.work_samples for j in again.jobs] == [j.work_samples for j in jobs.jobs]


def test_recompute_durations_says_all_that_it_lacks():
    assert "--profile NAME" in problems(RecomputeDurations())[0]
    profile = Speeds({("resnet50", 32): {1: 10.0, 3: 0.0, 8: 1.0}})
    slot_seconds = replace(THREE, work_in_slot_s=True)
    context = TransformContext(profile=profile)
    with pytest.raises(TraceError) as refused:
        RecomputeDurations().apply(slot_seconds, context)
    counted, unmeasured = refused.value.problems
    assert "work is in slot-seconds" in counted
    assert "has 0.0 samples/s for resnet50 with batch 32 on 3 slots" in unmeasured


def test_scale_durations_keeps_tightness():
    result = ScaleDurations(factor=0.5).apply(THREE, CONTEXT)
    assert [j.duration_s for j in result.jobs] == [50.0, 100.0, None]
    assert [j.work_samples for j in result.jobs] == [500.0] * 3
    assert deadlines(result) == [75.0, 90.0, None]
    assert arrivals(result) == [0.0, 40.0, 100.0]


def test_deadlines_are_uniform_in_lambda():
    many = trace(*(job(n, float(n), duration_s=10.0 + n) for n in range(2000)))
    result = AssignDeadlines().apply(many, CONTEXT)
    lambdas = [(j.deadline_s - j.arrival_s) / j.duration_s for j in result.jobs]
    assert 0.5 <= min(lambdas) < 0.51
    assert 1.49 < max(lambdas) <= 1.5
    # Mean 1, standard error 1/sqrt(12 * 2000) = 0.0065.
    assert sum(lambdas) / len(lambdas) == pytest.approx(1.0, abs=0.03)
    assert {j.deadline_kind for j in result.jobs} == {DeadlineKind.HARD}
    assert "seed 7" in result.history[0]


def test_a_larger_share_keeps_the_deadlines_of_a_smaller_one():
    many = trace(*(job(n, float(n)) for n in range(400)))
    few = AssignDeadlines(share=0.3, kind=DeadlineKind.SOFT).apply(many, CONTEXT)
    more = AssignDeadlines(share=0.6, kind=DeadlineKind.SOFT).apply(many, CONTEXT)
    with_few = {j.job_id: j.deadline_s for j in few.jobs if j.deadline_s is not None}
    with_more = {j.job_id: j.deadline_s for j in more.jobs if j.deadline_s is not None}
    assert with_few.items() < with_more.items()
    assert 80 < len(with_few) < 160
    none = AssignDeadlines(share=0.0).apply(more, CONTEXT)
    assert all(j.deadline_kind is DeadlineKind.NONE for j in none.jobs)


def test_deadlines_need_durations():
    assert problems(AssignDeadlines()) == [
        "AssignDeadlines: job 003 has no duration; read one from the file, or leave the"
        " transform out"
    ]


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: TimeWindow(start_s=5.0, end_s=5.0), "end_s 5.0 is not after start_s 5.0"),
        (lambda: TimeWindow(start_s=-1.0), "start_s is -1.0"),
        (lambda: KeepDurations(min_s=9.0, max_s=9.0), "min_s 9.0 to max_s 9.0 is no range"),
        (lambda: FirstJobs(count=0), "count is 0"),
        (lambda: FirstJobs(count=1, skip=-1), "skip is -1"),
        (lambda: CompressArrivals(factor=0.0), "factor is 0.0"),
        (lambda: CompressArrivals(factor=math.inf), "factor is inf"),
        (lambda: ScaleDurations(factor=-1.0), "factor is -1.0"),
        (lambda: CapDemand(max_slots=0), "max_slots is 0"),
        (lambda: CapDemand(max_slots=1, duration="halve"), "give stretch or keep"),
        (lambda: SlotRange(min_slots=4, max_slots=2), "max_slots 2 is below min_slots 4"),
        (lambda: LogicalWorkers(least=0), "least is 0; a job needs at least 1"),
        (lambda: AssignWorkloads(pool=[]), "pool is empty"),
        (lambda: AssignWorkloads(how="rename"), "renames is empty"),
        (lambda: AssignWorkloads(renames={"a": "b"}), "set how: rename"),
        (lambda: AssignWorkloads(how="by_name"), "give one of round_robin, random, rename"),
        (lambda: AssignWorkloads(batch={"a": 0}), "batch of a is 0"),
        (lambda: AssignBatch(batch=8, min_global_batch=16), "batch 8 is outside [16, 8]"),
        (lambda: AssignDeadlines(lambda_min=2.0), "lambda_max 1.5 is below lambda_min 2.0"),
        (lambda: AssignDeadlines(lambda_min=0.0), "lambda_min is 0.0"),
        (lambda: AssignDeadlines(share=1.5), "share is 1.5"),
        (lambda: AssignDeadlines(kind=DeadlineKind.NONE), "kind is 'none'"),
    ],
)
def test_impossible_options(make, fact):
    with pytest.raises(ValueError, match="(?s)" + fact.replace("[", r"\[")):
        make()


def test_scale_load_reaches_the_load_on_the_cluster_of_the_run():
    """Half the load: arrivals twice as far apart, deadlines as far behind them as before."""
    where = uniform_cluster(name="c", num_hosts=1, devices_per_host=4, device_type="d")
    context = TransformContext(cluster=where)
    two = FirstJobs(count=2).apply(THREE, CONTEXT)
    before = similarity(two.jobs, 4)["load"]
    result = ScaleLoad(load=before / 2).apply(two, context)
    assert similarity(result.jobs, 4)["load"] == pytest.approx(before / 2)
    for old, new in zip(two.jobs, result.jobs, strict=True):
        assert new.arrival_s == pytest.approx(2 * old.arrival_s)
        if old.deadline_s is not None:
            assert new.deadline_s - new.arrival_s == pytest.approx(old.deadline_s - old.arrival_s)
    with pytest.raises(TraceError, match=r"load of .* is not known"):
        ScaleLoad(load=1.0).apply(THREE, context)
    with pytest.raises(TraceError, match="there is no cluster; choose one"):
        ScaleLoad(load=1.0).apply(THREE, TransformContext())
    with pytest.raises(ValueError, match=r"load is 0.0; it must be finite and > 0"):
        ScaleLoad(load=0.0)


def test_names_are_the_workload_and_a_letter_in_order_of_arrival():
    before = trace(*(replace(job(n, float(n)), workload="ab"[n % 2]) for n in range(5)))
    after = NameJobs().apply(before, CONTEXT)
    assert [j.job_id for j in after.jobs] == ["a-a", "b-a", "a-b", "b-b", "a-c"]
    assert [replace(j, job_id="x") for j in after.jobs] == [
        replace(j, job_id="x") for j in before.jobs
    ]
    many = trace(*(replace(job(n, float(n)), workload="bert") for n in range(28)))
    names = [j.job_id for j in NameJobs().apply(many, CONTEXT).jobs]
    assert names[25:] == ["bert-z", "bert-aa", "bert-ab"]
    assert after.history == ("NameJobs: ids are the workload and a letter",)
