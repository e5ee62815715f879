"""EasyScale in real replays on clusters of several device types."""

from __future__ import annotations

import random

import pytest

from harness.contracts.decision import Grant, Refuse, Suspend
from harness.trace.model.events import TraceEvent, TraceEventKind
from systems.schedulers.easyscale import EasyScale
from tests.replay.worlds import job
from tests.schedulers.mixed import BATCH, held_types, mixed, run_mixed, speeds
from tests.schedulers.world import periods

FAST_AND_SLOW = speeds(v=2.0, t=1.0)


def net(job_id, arrival_s=0.0, slots=1, work=1000.0, **more):
    return job(job_id, arrival_s, slots, work, **{"workload": "net", "global_batch": BATCH} | more)


def down(time_s, *slots):
    return TraceEvent(time_s, TraceEventKind.SLOTS_DOWN, slots)


def up(time_s, *slots):
    return TraceEvent(time_s, TraceEventKind.SLOTS_UP, slots)


def ends(records):
    return {one.job_id: one.finish_s for one in records.jobs}


def test_a_job_grows_by_one_proposal_a_round_and_runs_at_the_plans_speed():
    """Three virtual workers: one V (2 samples/s), then V + T (2 and 1 of 3: 3 samples/s).

    60 s at 2, then 1000 - 120 samples at 3: 353 s in all.
    """
    where = mixed(v=1, t=1)
    records, _ = run_mixed([net("a", slots=3)], EasyScale(), where, FAST_AND_SLOW)
    assert held_types(records, where, "a") == [(0.0, "v"), (60.0, "t v")]
    assert ends(records)["a"] == pytest.approx(60 + 880 / 3)


def test_homo_stays_on_one_type_and_moves_to_a_faster_one_when_it_can():
    where = mixed(v=2, t=2)
    jobs = [net("first", slots=2, work=400.0), net("second", 0.0, 2, 1000.0)]
    records, recorder = run_mixed(jobs, EasyScale(mix=False), where, FAST_AND_SLOW)
    for view in recorder.views:
        for one in view.jobs.values():
            assert len({where.slots[slot].device_type for slot in one.slots}) <= 1
    types = [names for _, names in held_types(records, where, "second")]
    assert types[0] == "v"
    assert types[-1] == "v v"


def test_a_workload_that_cannot_mix_does_not():
    where = mixed(v=1, t=1)
    heter = EasyScale(one_type=["net"])
    records, _ = run_mixed([net("a", slots=3)], heter, where, FAST_AND_SLOW)
    assert held_types(records, where, "a") == [(0.0, "v")]


def test_jobs_without_slots_come_first_and_in_order():
    where = mixed(v=2)
    jobs = [net("a", slots=2, work=400.0), net("b", 1.0, 2, 400.0), net("c", 2.0, 2, 400.0)]
    records, _ = run_mixed(jobs, EasyScale(), where, speeds(v=2.0))
    first = {one.job_id: one.first_start_s for one in records.jobs}
    assert first["a"] == 0.0
    assert first["b"] == 60.0  # the round after, before "a" may grow
    assert first["c"] == pytest.approx(ends(records)["a"], abs=60.0)


def test_nobody_overtakes_a_gang_that_waits():
    where = mixed(v=3)
    jobs = [
        net("runs", slots=2, work=2400.0, elastic=False),
        net("gang", 1.0, 3, 600.0, elastic=False),
        net("small", 2.0, 1, 100.0),
    ]
    records, _ = run_mixed(jobs, EasyScale(), where, speeds(v=2.0))
    starts = {one.job_id: one.first_start_s for one in records.jobs}
    assert ends(records)["runs"] <= starts["gang"] < starts["small"]
    assert periods(records, "gang")[0][2] == 3


def test_a_plan_that_turns_out_slower_is_left_and_never_tried_again():
    """The profile thinks well of T; really it makes 0.1 samples a second."""
    where, truth = mixed(v=1, t=1), speeds(v=2.0, t=0.1)
    records, recorder = run_mixed(
        [net("a", slots=4)], EasyScale(), where, FAST_AND_SLOW, truth=truth
    )
    assert held_types(records, where, "a") == [(0.0, "v"), (60.0, "t v"), (120.0, "v")]
    grants = [d.changes["a"] for d in recorder.decisions if "a" in d.changes]
    assert grants[-1] == Grant(1, slots=(0,), global_batch=BATCH, virtual_workers=(4,))
    # 60 s at 2; then 3 and 1 on V and T: the T takes 20 s for its 2 samples; then 2 again.
    assert ends(records)["a"] == pytest.approx(120 + (1000 - 120 - 60 * 0.4) / 2)


def test_capabilities_follow_the_measured_rates():
    """V and T are thought alike; the job begins on V, and T then takes longer than thought."""
    where, known, truth = mixed(v=1, t=1), speeds(v=2.01, t=2.0), speeds(v=2.0, t=1.2)
    _, recorder = run_mixed([net("a", slots=6)], EasyScale(), where, known, truth=truth)
    plans = [d.changes["a"].virtual_workers for d in recorder.decisions if "a" in d.changes]
    # 3 and 3 take as long as 3 on T, 2.5 times 8/6 s, not 1.5 times; 4 and 2 take 2 times that.
    assert plans == [(6,), (3, 3), (4, 2)]


def test_a_device_that_is_faster_than_thought_gets_more():
    """The job begins on T, thought to make 1 sample a second; it makes 3."""
    where, known, truth = mixed(t=1, v=1), speeds(t=1.0, v=0.9), speeds(t=3.0, v=0.9)
    _, recorder = run_mixed([net("a", slots=8)], EasyScale(), where, known, truth=truth)
    plans = [d.changes["a"].virtual_workers for d in recorder.decisions if "a" in d.changes]
    assert plans == [(8,), (6, 2)]


def test_guaranteed_slots_are_taken_back_from_who_has_more():
    where = mixed(v=4)
    half = EasyScale(min_share=0.5)
    jobs = [net("a", slots=4, work=9000.0), net("b", 600.0, 4, 400.0)]
    records, _ = run_mixed(jobs, half, where, speeds(v=2.0))
    assert [count for *_, count in periods(records, "a")][:3] == [2, 4, 2]
    assert periods(records, "b")[0] == (600.0, 700.0, 2)
    none = run_mixed(jobs, EasyScale(), where, speeds(v=2.0))[0]
    assert {count for *_, count in periods(none, "a")} == {1, 2, 4}
    assert ends(none)["a"] <= periods(none, "b")[0][0]


@pytest.mark.parametrize("survive", [True, False])
def test_slots_that_serving_takes_are_replaced_by_the_same_type(survive):
    """Slot 0 (V) is taken at 300 s; slot 2 (V) is free, as is a T."""
    where = mixed(v=3, t=1)
    events = (down(300.0, 0), up(5000.0, 0))
    gang = net("a", slots=2, work=4000.0, max_slots=2)
    records, _ = run_mixed(
        [gang], EasyScale(), where, FAST_AND_SLOW, events=events, survive=survive
    )
    before, *_, after = held_types(records, where, "a")
    assert (before, after[1]) == ((0.0, "v"), "v v")
    assert after[0] == pytest.approx(300.0, abs=60.0)
    assert [one.slots for one in records.grants][-1] in ((1, 2), (2, 1))


def test_without_a_replacement_the_job_goes_on_and_after_the_time_out_takes_what_there_is():
    """Both V are the job's and the T is free, since two virtual workers cannot use it."""
    where, events = mixed(v=2, t=1), (down(600.0, 0), up(9000.0, 0))
    known = speeds(v=2.0, t=1.9)
    a = net("a", slots=2, work=6000.0)
    for reclaim_s in (300.0, 120.0):
        scheduler = EasyScale(reclaim_s=reclaim_s)
        records, _ = run_mixed([a], scheduler, where, known, events=events)
        held = [entry for entry in held_types(records, where, "a") if entry[0] >= 60.0]
        assert held[:2] == [(60.0, "v v"), (600.0, "v")]
        assert held[-1][1] == "t v"
        assert held[-1][0] == pytest.approx(600.0 + reclaim_s, abs=61.0)


def test_a_gang_that_loses_a_slot_stops_and_begins_again_elsewhere():
    where = mixed(v=2, t=2)
    gang = net("a", slots=2, work=1000.0, elastic=False)
    events = (down(100.0, 1), up(110.0, 1))
    records, recorder = run_mixed([gang], EasyScale(), where, FAST_AND_SLOW, events=events)
    actions = [d.changes["a"] for d in recorder.decisions if "a" in d.changes]
    assert [type(one) for one in actions] == [Grant, Suspend, Grant]
    assert records.jobs[0].num_preemptions == 1


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        (net("a", slots=9, elastic=False), "9 slots"),
        (net("a", slots=3, elastic=False), "3 slots at once of one device type"),
        (net("a", slots=1, min_slots=2, logical_workers=1), "has 1 logical workers"),
    ],
)
def test_what_can_never_run_is_refused(asked, fact):
    where = mixed(v=2, t=2)
    _, recorder = run_mixed([asked], EasyScale(mix=False), where, FAST_AND_SLOW)
    ((refusal,),) = [list(d.changes.values()) for d in recorder.decisions if d.changes]
    assert isinstance(refusal, Refuse)
    assert fact in refusal.reason


def test_wrong_options_are_told_at_once():
    with pytest.raises(ValueError, match=r"round_s is 0.*\n.*top_k is 0.*\n.*min_share is 2"):
        EasyScale(round_s=0, top_k=0, min_share=2)


@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_random_traces_on_three_types(seed, mix):
    """Every plan is whole, every slot promised once, homo is homo, and speeds are the plans'."""
    rng = random.Random(seed)
    where, known = (
        mixed(v=3, p=2, t=3),
        speeds(cost_s=rng.choice([0.0, 5.0]), v=2.45, p=1.55, t=1.0),
    )
    jobs = [
        net(
            f"{index}",
            float(rng.randint(0, 900)),
            rng.randint(1, 6),
            float(rng.randint(50, 4000)),
            elastic=rng.random() < 0.8,
        )
        for index in range(8)
    ]
    jobs = [one for one in jobs if one.elastic or one.requested_slots <= 2]
    events, downs = [], rng.sample(range(8), 3)
    for slot in downs:
        at_s = float(rng.randint(1, 2000))
        events += [down(at_s, slot), up(at_s + rng.randint(1, 500), slot)]
    scheduler = EasyScale(mix=mix, min_share=rng.choice([0.0, 0.5]), top_k=rng.randint(1, 3))
    records, recorder = run_mixed(
        jobs,
        scheduler,
        where,
        known,
        events=tuple(sorted(events, key=lambda event: event.order)),
        survive=rng.random() < 0.5,
    )
    assert {one.state for one in records.jobs} == {"finished"}
    specs = {one.job_id: one for one in jobs}
    rates = {"v": 2.45, "p": 1.55, "t": 1.0}
    for view, decision in zip(recorder.views, recorder.decisions, strict=True):
        for job_id, action in decision.changes.items():
            if isinstance(action, Grant):
                max_p = specs[job_id].num_logical_workers
                assert sum(action.virtual_workers) == max_p
                assert len(action.slots) <= max_p
                types = {where.slots[slot].device_type for slot in action.slots}
                assert mix or len(types) == 1
        for one in view.jobs.values():
            if one.samples_per_s > 0 and one.grant and one.grant.virtual_workers and one.slots:
                slots = one.grant.slots or one.slots
                if set(slots) == set(one.slots) and one.job_id not in view.in_flight:
                    share = BATCH / specs[one.job_id].num_logical_workers
                    step_s = max(
                        count * share / rates[where.slots[slot].device_type]
                        for slot, count in zip(slots, one.grant.virtual_workers, strict=True)
                    )
                    assert one.samples_per_s == pytest.approx(BATCH / step_s)
