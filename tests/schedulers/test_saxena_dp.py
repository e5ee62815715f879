"""The autoscaler of Saxena et al.: worked by hand, against a naive one, and its rules."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.configuration.compose import compose, parse_overrides
from harness.configuration.instantiate import build
from harness.contracts.decision import Grant, Refuse
from harness.metrics.compute import compute
from harness.profiles import load_profile
from harness.profiles.curves import Family
from harness.profiles.read import SHIPPED
from systems.schedulers.saxena_dp import SaxenaDp
from tests.examples import examples
from tests.replay.worlds import cluster, job, profile
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.naive_saxena import NaiveAutoscaler
from tests.schedulers.world import Recorder, built, periods, run

P100 = load_profile({"path": str(SHIPPED / "saxena_p100.yaml")})


def curves(by_batch):
    """Samples per second of workload ``net``, by batch and slots; changes are free."""
    known = profile()
    return replace(known, families={**known.families, "net": Family(by_batch)})


def category_1(job_id, arrival_s=0.0, minutes=30.0, **more):
    """A job that takes so long alone on one slot."""
    rate = P100.throughput("resnet50", 32).samples_per_s(1)
    fields = {
        "workload": "resnet50",
        "global_batch": 32,
        "min_global_batch": 32,
        "max_global_batch": 256,
        "max_slots": 10,
    }
    return job(job_id, arrival_s, 1, 60.0 * minutes * rate, **(fields | more))


def times(recorder):
    """When it changed something."""
    return [
        view.time_s
        for view, decision in zip(recorder.views, recorder.decisions, strict=True)
        if decision.changes
    ]


def test_the_papers_example_of_efficiency():
    """10 minutes on one GPU, 6 on two: 10 over 12 GPU-minutes (section IV-C)."""
    known = curves({8: {1: 1.0, 2: 10 / 6}})
    records, _ = run(
        [job("j", 0, 1, 600.0, workload="net")], SaxenaDp(), cluster(1, 2), known=known
    )
    found = compute(records)
    assert found["jct_mean_s"] == pytest.approx(360.0)
    assert found["sjs_efficiency"] == pytest.approx(10 / 12)


def test_the_platform_has_to_create_delete_halt_and_resume_and_no_more():
    """Section II, figure 1; a rescale is a halt and a resumption on other slots."""
    jobs = [category_1(f"j{number}", 200.0 * number) for number in range(12)]
    records, _ = run(jobs, SaxenaDp(), cluster(1, 10), known=P100)
    kinds = {change.kind for change in records.changes}
    assert {"start", "rescale"} <= kinds <= {"start", "stop", "suspend", "resume", "rescale"}


@pytest.mark.parametrize(("batch", "slots", "used"), [("best", 5, 160), ("min", 2, 32)])
def test_one_job_on_five_slots(batch, slots, used):
    """Section IV-D: 160 on 5 GPUs, against 32 on 2 with the smallest batch."""
    records, recorder = run([category_1("j")], SaxenaDp(batch=batch), cluster(1, 5), known=P100)
    assert recorder.decisions[0].changes == {"j": Grant(slots, global_batch=used)}
    assert [len(grant.slots) for grant in records.grants] == [slots]


def test_one_job_on_five_slots_is_1_6_times_as_fast_with_a_batch_that_grows():
    jct_s = {}
    for batch in ("best", "min"):
        records, _ = run([category_1("j")], SaxenaDp(batch=batch), cluster(1, 5), known=P100)
        jct_s[batch] = compute(records)["jct_mean_s"]
    assert jct_s["min"] / jct_s["best"] == pytest.approx(1.6, rel=0.005)


def test_decides_every_period_and_about_departures_alone():
    """Arrivals at 0, 100 and 700 s are decided about at 0, 600 and 1200; what ends in between
    leaves its slots free until then."""
    known = curves({12: {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}})
    jobs = [
        job(name, at_s, 1, work, workload="net", max_slots=4, global_batch=12)
        for name, at_s, work in (("a", 0, 10_000), ("b", 100, 300), ("c", 700, 4_000))
    ]
    records, recorder = run(jobs, SaxenaDp(), cluster(1, 4), known=known)
    assert times(recorder)[:3] == [0.0, 600.0, 1200.0]
    assert periods(records, "a")[0] == (0.0, 600.0, 4)
    # Equal gains everywhere: the last job has its fewest.
    assert periods(records, "b") == [(600.0, 900.0, 1)]
    assert periods(records, "a")[1][::2] == (600.0, 3)
    assert periods(records, "c")[0][::2] == (1200.0, 1)


def test_ends_alone_are_decided_about():
    known = curves({8: {1: 1.0, 2: 1.5}})
    jobs = [job(name, 0, 1, work, workload="net") for name, work in (("a", 1000), ("b", 100))]
    records, _ = run(jobs, SaxenaDp(), cluster(1, 2), known=known)
    assert periods(records, "a") == [(0.0, 600.0, 1), (600.0, pytest.approx(866.67, abs=0.01), 2)]


def test_nothing_happens_nothing_is_decided():
    _, recorder = run([category_1("j", minutes=600.0)], SaxenaDp(), cluster(1, 2), known=P100)
    assert recorder.decisions[0].wake_s is None
    assert len(recorder.views) == 2, "at the arrival and at the end"


def test_hybrid_decides_once_enough_jobs_have_ended():
    """A quarter of 8 jobs: the second end, at 200 s, is not waited with until 600 s. The next
    period counts from there."""
    known = curves({8: {1: 1.0, 2: 1.5}})
    ends = [100, 200, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000]
    jobs = [job(f"{i}", 0, 1, work, workload="net") for i, work in enumerate(ends)]
    jobs.append(job("late", 201, 1, 50, workload="net"))
    scheduler = SaxenaDp(trigger="hybrid", ended_share=0.25)
    _, recorder = run(jobs, scheduler, cluster(1, 8), known=known)
    assert times(recorder)[:3] == [0.0, 200.0, 800.0]
    _, recorder = run(jobs, SaxenaDp(), cluster(1, 8), known=known)
    assert times(recorder)[:2] == [0.0, 600.0]


NET = curves({8: {1: 10.0, 2: 16.0, 4: 20.0}, 32: {1: 10.0, 2: 18.0, 4: 32.0}})


@pytest.mark.parametrize(
    ("newcomers", "on_infeasible", "wide", "narrow"),
    [
        ("queue", "stop", 1800.0, 1800.0),
        ("queue", "skip", 1800.0, 600.0),
        ("drop", "stop", None, None),
        ("drop", "skip", None, 600.0),
    ],
)
def test_queue_drop_stop_and_skip(newcomers, on_infeasible, wide, narrow):
    """Nine slots. Wide jobs need four (32 samples at 8 a slot): two run until 1250 s. At 600 s one
    more waits, and a narrow one behind it, for which there is a slot."""
    fields = {"workload": "net", "global_batch": 32, "max_slots": 4}
    jobs = [job(name, at_s, 1, 40_000.0, **fields) for name, at_s in (("a", 0), ("b", 0), ("w", 1))]
    jobs.append(job("x", 2, 1, 40_000.0, workload="net", max_slots=4))
    scheduler = SaxenaDp(newcomers=newcomers, on_infeasible=on_infeasible, slot_batch=8)
    records, _ = run(jobs, scheduler, cluster(1, 9), known=NET)
    found = {record.job_id: record for record in records.jobs}
    assert {found[name].finish_s for name in "ab"} == {1250.0}
    assert (found["w"].first_start_s, found["x"].first_start_s) == (wide, narrow)
    for name, start_s in (("w", wide), ("x", narrow)):
        assert found[name].state == ("refused" if start_s is None else "finished")


def test_a_job_that_no_slots_can_serve_is_refused_at_once():
    jobs = [category_1("wide", max_global_batch=512), category_1("j", 1.0)]
    for newcomers in ("queue", "drop"):
        scheduler = SaxenaDp(batch="max", newcomers=newcomers)
        records, recorder = run(jobs, scheduler, cluster(5, 4), known=P100)
        refusal = recorder.decisions[0].changes["wide"]
        assert isinstance(refusal, Refuse)
        assert "batch of 512 does not fit" in refusal.reason
        assert "32 samples a slot" in refusal.reason
        assert {r.job_id: r.state for r in records.jobs} == {"wide": "refused", "j": "finished"}


@st.composite
def traces(draw, most=8):
    """Jobs that are elastic in slots and batch."""
    jobs = []
    for index in range(draw(st.integers(1, most))):
        low = draw(st.integers(1, 12))
        batch = draw(st.integers(low, 16))
        high = draw(st.integers(batch, 40))
        least = draw(st.integers(1, 2))
        jobs.append(
            job(
                f"{index:02d}",
                float(draw(st.integers(0, 40))),
                least,
                float(draw(st.integers(5, 300))),
                workload="net",
                global_batch=batch,
                min_global_batch=low,
                max_global_batch=high,
                min_slots=least,
                max_slots=draw(st.integers(max(least, 5), 6)),
            )
        )
    return jobs


@st.composite
def profiles(draw):
    """Affine times on a slot, and any time to sum gradients."""
    a, b = draw(st.floats(0.1, 3.0)), draw(st.floats(0.05, 0.5))
    summing = [0.0, *draw(st.lists(st.floats(0.0, 3.0), min_size=7, max_size=7))]
    return curves(
        {
            batch: {k: batch / (a + b * -(-batch // k) + summing[k - 1]) for k in range(1, 9)}
            for batch in range(1, 41)
        }
    )


@settings(deadline=None, max_examples=examples(150))
@given(jobs=traces(), known=profiles(), drops=st.booleans(), num_slots=st.integers(6, 9))
def test_decisions_are_those_of_the_naive_autoscaler(jobs, known, drops, num_slots):
    scheduler = SaxenaDp(
        trigger="event",
        newcomers="drop" if drops else "queue",
        k_max=6,
        slot_batch=8,
        num_probes=8,
    )
    _, recorder = run(jobs, scheduler, cluster(1, num_slots), known=known)
    naive = NaiveAutoscaler(k_max=6, slot_batch=8, drops=drops)
    for view, decision in zip(recorder.views, recorder.decisions, strict=True):
        found = {
            job_id: Refuse if isinstance(change, Refuse) else change
            for job_id, change in decision.changes.items()
        }
        assert found == naive.decide(view)


@settings(deadline=None, max_examples=examples(60))
@given(
    jobs=traces(),
    known=profiles(),
    batch=st.sampled_from(["best", "max", "min", "random"]),
    trigger=st.sampled_from(["event", "period", "hybrid"]),
    newcomers=st.sampled_from(["queue", "drop"]),
    on_infeasible=st.sampled_from(["stop", "skip"]),
    period_s=st.sampled_from([1.0, 7.3, 30.0]),
)
def test_batches_and_slots_stay_in_their_ranges_and_only_newcomers_are_dropped(
    jobs, known, batch, trigger, newcomers, on_infeasible, period_s
):
    scheduler = SaxenaDp(
        batch=batch,
        trigger=trigger,
        newcomers=newcomers,
        on_infeasible=on_infeasible,
        period_s=period_s,
        k_max=6,
        slot_batch=8,
    )
    records, _ = run(jobs, scheduler, cluster(1, 8), known=known)
    specs = {spec.job_id: spec for spec in jobs}
    used = {}
    for grant in records.grants:
        spec = specs[grant.job_id]
        low, high = spec.batch_range
        assert low <= grant.global_batch <= high
        assert spec.min_slots <= len(grant.slots) <= 6
        assert math.ceil(grant.global_batch / len(grant.slots)) <= 8
        used.setdefault(grant.job_id, set()).add(grant.global_batch)
    for job_id, batches in used.items():
        low, high = specs[job_id].batch_range
        assert batch == "best" or len(batches) == 1
        assert batch != "max" or batches == {high}
        assert batch != "min" or batches == {low}
    for record in records.jobs:
        assert record.num_preemptions == 0
        assert record.state == "finished" or (newcomers == "drop" and not record.attained_slot_s)


@settings(deadline=None, max_examples=examples(40))
@given(jobs=traces(), outages=st.lists(st.integers(0, 7), max_size=4, unique=True))
def test_a_job_that_lost_its_slots_is_not_dropped(jobs, outages):
    chaos = ChaosEngine(
        cluster(2, 4),
        seed=1,
        max_delay_s=2,
        failure_share=0.2,
        outages=tuple((slot, 5 + slot, 20 + slot) for slot in outages),
    )
    scheduler = Recorder(SaxenaDp(trigger="event", newcomers="drop", slot_batch=8, k_max=6))
    known = curves({8: {k: float(k) for k in range(1, 9)}})
    records, _ = run(jobs, scheduler, cluster(2, 4), known=known, chaos=chaos)
    for record in records.jobs:
        assert record.state == "finished" or not record.attained_slot_s


def drawn(records):
    return {grant.job_id: grant.global_batch for grant in records.grants}


def test_random_batches_depend_on_the_seed_and_the_job_alone():
    jobs = [category_1(f"{i:03d}", 600.0 * i) for i in range(40)]
    where = cluster(8, 5)
    first, _ = run(jobs, SaxenaDp(batch="random", seed=3), where, known=P100)
    again, _ = run(jobs, SaxenaDp(batch="random", seed=3), where, known=P100)
    other, _ = run(jobs, SaxenaDp(batch="random", seed=4), where, known=P100)
    fewer, _ = run(jobs[::2], SaxenaDp(batch="random", seed=3), where, known=P100)
    assert first.grants == again.grants
    assert drawn(first) != drawn(other)
    assert drawn(fewer).items() <= drawn(first).items()
    assert {min(drawn(first).values()) >= 32, max(drawn(first).values()) <= 256} == {True}
    assert len(set(drawn(first).values())) > 30


def test_the_seed_of_the_run_is_that_of_the_shipped_baseline():
    container, problems = compose(parse_overrides(["scheduler=saxena_random_bs", "seed=3"]))
    assert problems == []
    scheduler = build(container["scheduler"], "scheduler")
    jobs = [category_1(f"{i:03d}") for i in range(5)]
    records, _ = run(jobs, scheduler, cluster(8, 5), known=P100)
    expected, _ = run(jobs, SaxenaDp(batch="random", seed=3), cluster(8, 5), known=P100)
    assert drawn(records) == drawn(expected)


def test_random_batches_are_spread_evenly():
    scheduler = SaxenaDp(batch="random", seed=0)
    spec = category_1("j")
    batches = [scheduler._drawn_batch(replace(spec, job_id=str(i))) for i in range(4000)]
    assert (min(batches), max(batches)) == (32, 256)
    assert sum(batches) / 4000 == pytest.approx(144, rel=0.02)


def test_the_shipped_baselines_differ_in_the_batch_alone():
    spec = category_1("j")
    for name, batch in (("saxena_max_bs", 256), ("saxena_min_bs", 32), ("saxena_dp", 256)):
        records, _ = run([spec], built("scheduler", name), cluster(2, 5), known=P100)
        assert set(drawn(records).values()) == {batch}


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"period_s": 0.0}, "period_s is 0.0; give seconds above 0"),
        ({"ended_share": 5.0}, "ended_share is 5.0"),
        ({"k_max": 0}, "k_max is 0"),
        ({"num_probes": 0}, "num_probes is 0"),
        ({"slot_batch": {"a": 0}}, "slot_batch is"),
        ({"weights": {"a": 5}}, "give both, or neither"),
    ],
)
def test_wrong_options(options, fact):
    with pytest.raises(ValueError, match=fact):
        SaxenaDp(**options)
