"""Programs that crash or fail for good, in a simulated replay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision, Grant, Suspend
from harness.metrics.compute import compute
from harness.trace.model.events import TraceEvent, TraceEventKind, in_order
from harness.validate import check_records
from systems.schedulers.afs import Afs
from systems.schedulers.fifo import Fifo
from systems.schedulers.tiresias import Tiresias
from systems.schedulers.uniform import Uniform
from tests.examples import examples
from tests.replay.test_trace_events import (
    LOSES,
    SURVIVES,
    cancel,
    down,
    greedy,
    outages,
    run,
    up,
)
from tests.replay.worlds import Mechanism, cluster, job, simulate


def crash(time_s, job_id):
    return TraceEvent(time_s, TraceEventKind.CRASH, job_id=job_id)


def fail(time_s, job_id):
    return TraceEvent(time_s, TraceEventKind.FAIL, job_id=job_id)


@pytest.mark.parametrize("mechanism", [LOSES, SURVIVES])
def test_a_crashed_job_goes_on_from_its_last_checkpoint_on_slots_that_it_is_given_anew(mechanism):
    # T(2) = 2: 50 samples by 25 s, of which 40 were safe at 20 s. No worker survives a crash.
    jobs, records = run(
        [job("a", slots=2, work=100)], crash(25, "a"), mechanism=mechanism, checkpoint_every_s=10.0
    )
    assert (jobs["a"].state, jobs["a"].finish_s) == ("finished", 25 + (100 - 40) / 2)
    assert [(g.start_s, g.end_s, g.slots) for g in records.grants] == [
        (0, 25, (0, 1)),
        (25, 55, (0, 1)),
    ]
    assert [(c.kind, c.requested_s, c.outcome) for c in records.changes] == [
        ("start", 0, "done"),
        ("resume", 25, "done"),
    ]
    assert compute(records)["interruptions"] == 1


def test_who_is_first_in_line_has_the_slots_of_a_crashed_job():
    def a_first(view):
        waiting = sorted(name for name, known in view.jobs.items() if known.grant is None)
        return Decision({waiting[0]: Grant(2)} if waiting and view.num_free == 2 else {})

    jobs, _ = run(
        [job("b", slots=2, work=30), job("a", arrival_s=1.0, slots=2, work=100)],
        crash(5, "b"),
        rule=a_first,
    )
    assert (jobs["a"].first_start_s, jobs["a"].finish_s) == (5, 55)
    assert jobs["b"].finish_s == 55 + 15, "it had saved nothing"


@pytest.mark.parametrize("event", [crash, fail])
def test_a_program_that_does_not_run_cannot_crash(event):
    waiting = [job("a", slots=2, work=100), job("b", slots=2, work=10)]
    jobs, records = run(waiting, event(10, "b"))
    assert (jobs["b"].state, jobs["b"].finish_s) == ("finished", 55)
    assert "interruptions" not in records.facts


@pytest.mark.parametrize("event", [crash, fail])
def test_nor_can_one_that_is_suspended_or_has_ended(event):
    def rule(view):
        if view.time_s == 20:
            return Decision({"a": Suspend()}, wake_s=40.0)
        return replace(greedy(view), wake_s=20.0 if view.time_s < 20 else None)

    jobs, records = run(
        [job("a", slots=2, work=100), job("late", arrival_s=99.0, work=1)],
        event(30, "a"),
        event(90, "a"),
        rule=rule,
    )
    assert (jobs["a"].state, jobs["a"].finish_s) == ("finished", 70)
    assert "interruptions" not in records.facts


def test_crashes_that_concern_nobody_pass_while_nobody_runs():
    # Both slots are down from 10 to 60 s; meanwhile nothing is planned, and nobody arrives.
    void = [crash(time_s, "a") for time_s in (20, 30, 45)]
    events = [down(10, 0, 1), *void, up(60, 0, 1), crash(300, "a")]
    jobs, _ = run([job("a", slots=2, work=100)], *events)
    assert jobs["a"].finish_s == 110
    late = [job("a", slots=2, work=100), job("b", arrival_s=50.0, work=10)]
    jobs, _ = run(late, *events)
    assert (jobs["a"].finish_s, jobs["b"].first_start_s) == (110, 110)


def test_a_failed_job_has_ended_and_its_slots_are_free():
    jobs, records = run([job("a", slots=2, work=100), job("b", slots=2, work=10)], fail(25, "a"))
    assert (jobs["a"].state, jobs["a"].finish_s) == ("failed", 25)
    assert (jobs["a"].samples_done, jobs["a"].reason) == (50, "its program failed")
    assert jobs["b"].first_start_s == 25
    found = compute(records)
    assert (found["jobs_failed"], found["jobs_finished"]) == (1, 1)


@pytest.mark.parametrize("event", [crash, fail])
def test_a_start_that_is_under_way_fails_with_its_program(event):
    jobs, records = run([job("a", slots=2, work=100)], event(3, "a"), costs={"pause_s": 5.0})
    if event is fail:
        assert (jobs["a"].state, jobs["a"].samples_done) == ("failed", 0)
        assert [c.outcome for c in records.changes] == ["overtaken"]
    else:
        assert jobs["a"].finish_s == 3 + 5 + 50
        assert [(c.kind, c.outcome) for c in records.changes] == [
            ("start", "failed"),
            ("start", "done"),
        ]


def test_who_crashes_while_it_is_being_suspended_is_not_preempted():
    def rule(view):
        if view.time_s == 20:
            return Decision({"a": Suspend()}, wake_s=40.0)
        return replace(greedy(view), wake_s=20.0 if view.time_s < 20 else None)

    jobs, _ = run([job("a", slots=2, work=100)], crash(22, "a"), rule=rule, costs={"pause_s": 4.0})
    assert (jobs["a"].state, jobs["a"].num_preemptions) == ("finished", 0)


@pytest.mark.parametrize("event", [crash, fail])
def test_a_job_that_ends_in_the_instant_of_its_crash_has_ended(event):
    jobs, _ = run([job("a", slots=2, work=50)], event(25, "a"))
    assert (jobs["a"].state, jobs["a"].finish_s) == ("finished", 25)


def test_what_goes_wrong_in_one_instant_goes_wrong_once():
    events = down(25, 1), crash(25, "a"), up(30, 1), cancel(40, "a"), crash(40, "a")
    jobs, records = run([job("a", slots=2, work=100)], *events)
    assert records.facts["interruptions"] == 1
    assert (jobs["a"].state, jobs["a"].finish_s) == ("cancelled", 40)
    assert [g.start_s for g in records.grants] == [0, 30]


@settings(deadline=None, max_examples=examples(150))
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 3), st.integers(1, 200)),
        min_size=1,
        max_size=8,
    ),
    mishaps=st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 120), st.sampled_from([crash, fail])),
        max_size=12,
    ),
    windows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 150), st.integers(1, 60)), max_size=4
    ),
    pause_s=st.sampled_from([0.0, 3.0]),
    preparation_s=st.sampled_from([0.0, 2.5]),
    every_s=st.sampled_from([7.0, 600.0]),
    survive=st.booleans(),
    scheduler=st.sampled_from([Fifo, Uniform, Tiresias, Afs]),
)
def test_whatever_crashes_the_books_balance(
    rows, mishaps, windows, pause_s, preparation_s, every_s, survive, scheduler
):
    jobs = [
        job(f"{i}", float(at), slots, float(work), max_slots=4)
        for i, (at, slots, work) in enumerate(rows)
    ]
    arrivals = {spec.job_id: spec.arrival_s for spec in jobs}
    hits = [
        kind(arrivals[f"{number}"] + after, f"{number}")
        for number, after, kind in mishaps
        if f"{number}" in arrivals
    ]
    events = in_order([*outages(windows), *hits])
    mechanism = Mechanism(Abilities(True, True, True, True, survive=survive))
    costs = {"preparation_s": preparation_s, "pause_s": pause_s}
    first, second = (
        simulate(
            jobs, scheduler(), on=cluster(2, 2), costs=costs, mechanism=mechanism,
            events=events, checkpoint_every_s=every_s,
        )
        for _ in range(2)
    )  # fmt: skip
    assert (first.jobs, first.grants, first.changes) == (second.jobs, second.grants, second.changes)
    assert first.facts.get("interruptions") == second.facts.get("interruptions")
    assert list(check_records(first)) == [], "no slot is held twice, or while it is down"
    fatal = {(event.job_id, event.time_s) for event in hits if event.kind is TraceEventKind.FAIL}
    assert len(first.jobs) == len(jobs)
    for record in first.jobs:
        assert 0 <= record.samples_done <= record.work_samples
        if record.state == "finished":
            assert record.samples_done == record.work_samples
            alone_s = record.work_samples / 4
            assert record.finish_s - record.arrival_s >= alone_s - 1e-9
        else:
            assert record.state == "failed"
            assert (record.job_id, record.finish_s) in fatal
