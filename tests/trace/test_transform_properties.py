"""What every transform keeps, on traces made at random."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.trace.model.trace import TraceError
from harness.trace.transforms import (
    AssignBatch,
    AssignDeadlines,
    AssignWorkloads,
    BatchPerSlot,
    CapDemand,
    CompressArrivals,
    FirstJobs,
    LogicalWorkers,
    RecomputeDurations,
    RecomputeWork,
    ScaleDurations,
    SetElastic,
    SlotRange,
    TimeWindow,
    TransformContext,
)
from tests.examples import examples
from tests.trace.examples import job, trace


class Linear:
    """A profile in which every workload makes 3 samples per second and slot."""

    name = "linear"

    def throughput(self, workload, global_batch):
        return self

    def samples_per_s(self, num_slots):
        return 3.0 * num_slots


@st.composite
def traces(draw):
    gaps = draw(st.lists(st.integers(0, 5000), min_size=1, max_size=20))
    jobs, now_s = [], 0.0
    for number, gap in enumerate(gaps):
        now_s += gap if number else 0
        duration_s = float(draw(st.integers(1, 100_000)))
        slack_s = draw(st.none() | st.integers(1, 100_000))
        jobs.append(
            job(
                number,
                now_s,
                slots=draw(st.integers(1, 64)),
                duration_s=duration_s,
                deadline_s=None if slack_s is None else now_s + slack_s,
            )
        )
    return trace(*jobs)


FACTORS = st.floats(0.01, 100.0)
KEEPING = st.one_of(
    st.builds(CompressArrivals, factor=FACTORS),
    st.builds(ScaleDurations, factor=FACTORS),
    st.builds(
        CapDemand, max_slots=st.integers(1, 64), duration=st.sampled_from(["keep", "stretch"])
    ),
    st.builds(SetElastic, elastic=st.booleans()),
    st.builds(LogicalWorkers, least=st.integers(1, 64)),
    st.builds(SlotRange, min_slots=st.just(1), max_slots=st.integers(64, 128)),
    st.builds(
        AssignWorkloads,
        pool=st.lists(st.sampled_from("abcd"), min_size=1),
        how=st.sampled_from(["round_robin", "random"]),
        batch=st.none() | st.integers(1, 512),
    ),
    st.builds(AssignBatch, batch=st.integers(1, 512)),
    st.builds(BatchPerSlot, batch=st.integers(1, 512)),
    st.builds(RecomputeDurations),
    st.builds(RecomputeWork),
    st.builds(AssignDeadlines, share=st.floats(0, 1)),
)
CHOOSING = st.one_of(
    st.builds(FirstJobs, count=st.integers(1, 8), skip=st.integers(0, 4)),
    st.builds(
        TimeWindow,
        start_s=st.integers(0, 9000).map(float),
        end_s=st.integers(9001, 60_000).map(float),
    ),
)


@settings(max_examples=examples(120), deadline=None)
@given(traces(), st.lists(KEEPING, min_size=1, max_size=5), st.integers(0, 2**31))
def test_chains_keep_jobs_and_order_and_are_deterministic(before, chain, seed):
    context = TransformContext(seed=seed, profile=Linear())
    results = []
    for _ in range(2):
        after = before
        for transform in chain:
            after = transform.apply(after, context)
        results.append(after)
    after = results[0]
    assert after == results[1]
    assert after.digest == results[1].digest
    assert [j.job_id for j in after.jobs] == [j.job_id for j in before.jobs]
    assert len(after.history) == len(chain)
    assert all(
        note.startswith(type(transform).__name__)
        for note, transform in zip(after.history, chain, strict=True)
    )
    assert before.history == ()


@settings(max_examples=examples(120), deadline=None)
@given(traces(), CHOOSING)
def test_choosing_keeps_what_a_job_is_and_starts_at_zero(before, transform):
    try:
        after = transform.apply(before, TransformContext())
    except TraceError:
        chosen = [
            j
            for number, j in enumerate(before.jobs)
            if isinstance(transform, TimeWindow)
            and transform.start_s <= j.arrival_s < transform.end_s
        ]
        too_many = isinstance(transform, FirstJobs) and transform.skip + transform.count > len(
            before.jobs
        )
        assert too_many or not chosen
        return
    assert after.jobs[0].arrival_s == 0.0
    old = {j.job_id: j for j in before.jobs}
    first = old[after.jobs[0].job_id]
    for job_after in after.jobs:
        was = old[job_after.job_id]
        assert was.arrival_s - job_after.arrival_s == first.arrival_s
        assert job_after.duration_s == was.duration_s
        assert (job_after.deadline_s is None) == (was.deadline_s is None)
        if was.deadline_s is not None:
            assert was.deadline_s - job_after.deadline_s == first.arrival_s
    kept = [j.job_id for j in after.jobs]
    assert kept == [j.job_id for j in before.jobs if j.job_id in set(kept)]


@settings(max_examples=examples(60), deadline=None)
@given(traces(), st.integers(1, 64))
def test_a_stretched_cap_keeps_slot_seconds(before, max_slots):
    after = CapDemand(max_slots=max_slots).apply(before, TransformContext())
    for was, now in zip(before.jobs, after.jobs, strict=True):
        assert now.requested_slots == min(was.requested_slots, max_slots)
        area = was.requested_slots * was.duration_s
        assert abs(now.requested_slots * now.duration_s - area) <= 1e-9 * area
