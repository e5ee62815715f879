"""The loop, on worlds small enough to work out by hand."""

from __future__ import annotations

import math

import pytest

from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.job_state import JobState
from harness.contracts.scheduler import Knowledge
from harness.replay import DecisionError, ReplayError
from tests.replay.worlds import Driver, Mechanism, cluster, job, simulate


def start_what_fits(view):
    free, changes = view.num_free, {}
    for waiting in sorted(view.jobs.values(), key=lambda job: job.spec.order):
        if waiting.grant is None and waiting.spec.requested_slots <= free:
            changes[waiting.job_id] = Grant(waiting.spec.requested_slots)
            free -= waiting.spec.requested_slots
    return Decision(changes)


def by_id(records):
    return {record.job_id: record for record in records.jobs}


def test_two_jobs_share_and_a_third_waits():
    jobs = [job("a", 0, 2, 200), job("b", 10, 2, 100), job("c", 20, 4, 400)]
    records = simulate(jobs, Driver(start_what_fits))
    done = by_id(records)
    assert done["a"].finish_s == 100.0
    assert (done["b"].first_start_s, done["b"].finish_s) == (10.0, 60.0)
    assert (done["c"].first_start_s, done["c"].finish_s) == (100.0, 200.0)
    assert {record.state for record in records.jobs} == {"finished"}
    assert [grant.slots for grant in records.grants] == [(2, 3), (0, 1), (0, 1, 2, 3)]
    assert all(grant.speedup == pytest.approx(len(grant.slots)) for grant in records.grants)


def test_a_start_waits_until_the_suspended_job_has_left():
    """Preemption at 10 s costs a pause of 5 s; the newcomer starts only after it."""

    def preempt(view):
        if view.time_s == 0:
            return Decision({"old": Grant(4)})
        if any(e.kind is EventKind.ARRIVAL for e in view.news):
            return Decision({"old": Suspend(), "new": Grant(4)})
        if any(e.kind is EventKind.JOB_FINISHED for e in view.news) and "old" in view.jobs:
            return Decision({"old": Grant(4)})
        return Decision()

    records = simulate(
        [job("old", 0, 4, 400), job("new", 10, 4, 40)], Driver(preempt), costs={"pause_s": 5.0}
    )
    kinds = [(c.job_id, c.kind, c.requested_s, c.ended_s) for c in records.changes]
    assert kinds == [
        ("old", "start", 0.0, 5.0),
        ("old", "suspend", 10.0, 15.0),
        ("new", "start", 15.0, 20.0),
        ("old", "resume", 30.0, 35.0),
    ]
    done = by_id(records)
    # old: 5 s of 4 samples/s before it was stopped, 380 samples left at 35 s.
    assert done["old"].finish_s == 35.0 + 380.0 / 4
    assert done["new"].finish_s == 30.0
    assert done["old"].num_preemptions == 1
    assert done["old"].attained_slot_s == 4 * (15.0 + (done["old"].finish_s - 30.0))


def test_preparation_goes_on_training_and_both_slot_sets_are_held():
    def grow_then_shrink(view):
        if view.time_s == 0:
            return Decision({"a": Grant(1)}, wake_s=10.0)
        if view.time_s == 10:
            return Decision({"a": Grant(4)}, wake_s=50.0)
        return Decision({"a": Grant(2)} if view.time_s == 50 else {})

    records = simulate(
        [job("a", 0, 1, 1000)], Driver(grow_then_shrink), costs={"preparation_s": 4, "pause_s": 1}
    )
    start, grow, shrink = records.changes
    assert (start.ended_s, grow.ended_s, shrink.ended_s) == (5.0, 15.0, 55.0)
    assert (grow.stopping_time_s, grow.samples_lost) == (1.0, 1.0)
    assert (shrink.stopping_time_s, shrink.samples_lost) == (1.0, 4.0)
    # 5..14 at 1/s, 15..54 at 4/s, from 55 at 2/s.
    assert records.jobs[0].finish_s == 55.0 + (1000 - 9 - 156) / 2
    held = [(g.start_s, g.end_s, g.slots) for g in records.grants]
    assert held[:4] == [
        (0.0, 5.0, (0,)),
        (5.0, 10.0, (0,)),
        (10.0, 15.0, (0, 1, 2, 3)),
        (15.0, 50.0, (0, 1, 2, 3)),
    ]
    assert records.grants[0].speedup == 0.0
    assert records.grants[2].speedup == pytest.approx(4 / 5)


def grow_at(time_s):
    def rule(view):
        if view.time_s == 0:
            return Decision({"a": Grant(1)}, wake_s=time_s)
        return Decision({"a": Grant(4)} if "a" in view.jobs else {})

    return Driver(rule)


def test_a_job_that_ends_during_preparation_overtakes_its_change():
    """Started after 10 s of preparation, it would end at 110 s at 1 sample/s."""
    in_time = simulate([job("a")], grow_at(98.0), costs={"preparation_s": 10.0})
    assert in_time.changes[-1].outcome == "done"
    assert in_time.jobs[0].finish_s == pytest.approx(108.0 + (100 - 98) / 4)
    late = simulate([job("a")], grow_at(105.0), costs={"preparation_s": 10.0})
    assert late.changes[-1].outcome == "overtaken"
    assert late.jobs[0].finish_s == 110.0


def test_a_change_without_a_pause_is_seen_at_its_new_rate():
    def rule(view):
        if view.time_s == 0:
            return Decision({"a": Grant(1)}, wake_s=20.0)
        if view.time_s == 20:
            return Decision({"a": Grant(4)}, wake_s=30.0)
        return Decision(wake_s=40.0 if view.time_s < 40 else None)

    driver = Driver(rule)
    records = simulate([job("a", 0, 1, 1000)], driver, costs={"preparation_s": 4, "pause_s": 0})
    rates = {view.time_s: view.jobs["a"].samples_per_s for view in driver.views if view.jobs}
    assert [rates[at] for at in (20.0, 30.0, 40.0)] == [1.0, 4.0, 4.0]
    # It starts at 4 s, is done with the rescale at 24 s, and never stands still.
    assert [record.finish_s for record in records.jobs] == [24 + (1000 - 20) / 4]
    assert [change.samples_lost for change in records.changes] == [None, 0.0]


FREE = {"preparation_s": 0.0, "pause_s": 0.0}


@pytest.mark.parametrize(("preparation_s", "pause_s"), [(0, 0), (0, 3), (0.05, 3), (7, 3)])
@pytest.mark.parametrize(
    ("kind", "action"),
    [("suspend", Suspend()), ("rescale", Grant(2)), ("migrate", Grant(1, slots=(3,)))],
)
def test_a_job_at_its_end_is_finished_and_not_changed(kind, action, preparation_s, pause_s):
    """0.1 + 0.2 is one rounding above 0.3: at 0.3 s the job has 3e-17 samples to make."""
    change_s = 0.25 if preparation_s == 0.05 else 0.3  # 0.25 + 0.05 is 0.3

    def rule(view):
        if "a" not in view.jobs:
            return Decision()
        if view.time_s == 0.1:
            return Decision({"a": Grant(1)}, wake_s=change_s)
        if view.time_s == change_s:
            return Decision({"a": action}, wake_s=5.0)
        return Decision({"a": Grant(1)})

    costs = {"kind": kind, "preparation_s": preparation_s, "pause_s": pause_s}
    records = simulate([job("a", 0.1, 1, 0.2)], Driver(rule), cells=[costs, FREE])
    assert [(change.kind, change.outcome) for change in records.changes] == [
        ("start", "done"),
        (kind, "overtaken"),
    ]
    (finished,) = records.jobs
    assert (finished.state, finished.finish_s) == ("finished", 0.3)
    assert (finished.samples_done, finished.executed_s) == (0.2, pytest.approx(0.2))
    assert records.grants[-1].end_s == finished.finish_s
    assert all(grant.speedup == pytest.approx(1.0) for grant in records.grants)


def test_a_job_just_before_its_end_is_changed_as_asked():
    """A microsecond is time: the job is suspended, and has it to make when it is resumed."""

    def rule(view):
        if view.time_s == 0:
            return Decision({"a": Grant(1)}, wake_s=100 - 1e-6)
        if view.time_s < 100:
            return Decision({"a": Suspend()}, wake_s=500.0)
        return Decision({"a": Grant(1)} if "a" in view.jobs else {})

    records = simulate([job("a")], Driver(rule))
    assert [change.kind for change in records.changes] == ["start", "suspend", "resume"]
    assert records.jobs[0].finish_s == pytest.approx(500 + 1e-6, abs=1e-9)


def test_refusal_and_undeclared_knowledge():
    seen = []

    def refuse(view):
        seen.extend((j.spec.deadline_s, j.spec.work_samples) for j in view.jobs.values())
        return Decision({j: Refuse("no") for j in view.jobs})

    jobs = [job("a", 0, 1, 10, deadline_s=5.0, deadline_kind="hard")]
    records = simulate(jobs, Driver(refuse))
    assert (records.jobs[0].state, records.jobs[0].reason) == ("refused", "no")
    assert seen == [(None, math.inf)]
    driver = Driver(refuse, needs=frozenset({Knowledge.DEADLINE, Knowledge.REMAINING_WORK}))
    simulate(jobs, driver)
    assert seen[-1] == (5.0, 10)


def test_old_views_stay_as_they_were():
    driver = Driver(start_what_fits)
    simulate([job("a", 0, 4, 40), job("b", 1, 4, 40)], driver)
    first, second = driver.views[0], driver.views[1]
    assert list(first.jobs) == ["a"]
    assert first.jobs["a"].state is JobState.PENDING
    assert second.jobs["a"].state is JobState.RUNNING
    assert sorted(second.jobs) == ["a", "b"]


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Grant(5), "5 slots are outside [1, 4]"),
        (Grant(2, slots=(0,)), "2 slots granted, but named (0,)"),
        (Grant(2, slots=(0, 9)), "does not exist"),
        (Grant(1, global_batch=99), "outside [8, 8]"),
        (Grant(1, share=0.5), "cannot share"),
    ],
)
def test_impossible_decisions_are_refused(action, words):
    with pytest.raises(DecisionError) as caught:
        simulate([job("a")], Driver(lambda view: Decision({"a": action})))
    assert words in str(caught.value)
    assert "job 'a'" in str(caught.value)


def test_more_than_the_cluster_and_unknown_jobs_are_refused_together():
    def greedy(view):
        return Decision({"a": Grant(3), "b": Grant(3), "zz": Grant(1)})

    with pytest.raises(DecisionError) as caught:
        simulate([job("a"), job("b")], Driver(greedy))
    assert "6 slots granted, but only 4 are usable" in str(caught.value)
    assert "'zz' is not there" in str(caught.value)


def test_a_backend_that_cannot_suspend_is_never_asked_to():
    fixed = Mechanism(Abilities())

    def suspend_later(view):
        return Decision({"a": Grant(1)}, 5.0) if view.time_s == 0 else Decision({"a": Suspend()})

    with pytest.raises(DecisionError, match="cannot suspend"):
        simulate([job("a")], Driver(suspend_later), mechanism=fixed)


def test_waiting_for_ever_is_an_error_and_not_a_hang():
    with pytest.raises(ReplayError, match="2 jobs wait for ever"):
        simulate([job("a"), job("b")], Driver(lambda view: Decision()))


def test_exact_slots_are_obeyed_and_equal_sets_are_no_migration():
    def moves(view):
        if view.time_s == 0:
            return Decision({"a": Grant(2, slots=(3, 1))}, wake_s=10.0)
        if view.time_s == 10:
            return Decision({"a": Grant(2, slots=(1, 3))}, wake_s=20.0)
        if view.time_s == 20:
            return Decision({"a": Grant(2, slots=(0, 3))})
        return Decision()

    records = simulate([job("a", 0, 2, 100)], Driver(moves))
    assert [(c.kind, c.to_slots) for c in records.changes] == [
        ("start", (3, 1)),
        ("migrate", (3, 0)),
    ]


def test_weak_scaling_and_a_chosen_batch_reach_the_engine():
    def grow(view):
        if view.time_s == 0:
            return Decision({"a": Grant(1)}, wake_s=10.0)
        if view.time_s == 10:
            return Decision({"a": Grant(4)}, wake_s=20.0)
        return Decision({"a": Grant(4, global_batch=12)} if view.time_s == 20 else {})

    wide = job("a", 0, 2, 1000, min_global_batch=4, max_global_batch=64)
    driver = Driver(grow)
    records = simulate([wide], driver, scaling="weak")
    assert [g.global_batch for g in records.grants] == [4, 16, 12]
    assert [c.kind for c in records.changes] == ["start", "rescale", "rescale"]


def test_jobs_on_two_hosts_do_not_share_slots():
    jobs = [job(str(i), i, 1 + i % 3, 50) for i in range(30)]
    records = simulate(jobs, Driver(start_what_fits), on=cluster(2, 3))
    edges = sorted(
        [(g.start_s, 1, slot) for g in records.grants for slot in g.slots]
        + [(g.end_s, 0, slot) for g in records.grants for slot in g.slots]
    )
    held: set[int] = set()
    for _, begins, slot in edges:
        assert (slot not in held) == bool(begins)
        held.symmetric_difference_update({slot})
    assert len(records.jobs) == 30


def test_a_measured_stop_ends_a_job_after_its_last_sample():
    cells = [
        {"kind": "stop", "preparation_s": 0.0, "pause_s": 2.0},
        {"preparation_s": 0.0, "pause_s": 0.0},
    ]
    records = simulate([job("a", 0, 2, 100)], Driver(start_what_fits), cells=cells)
    assert records.jobs[0].finish_s == 52.0
    assert records.jobs[0].samples_done == 100
