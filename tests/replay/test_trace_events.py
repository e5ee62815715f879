"""Slots that go down and come back, and jobs that are cancelled, in a simulated replay."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision, Grant, Suspend
from harness.replay import ReplayError
from harness.results.records import OutageRecord
from harness.trace.model.events import TraceEvent, TraceEventKind, in_order
from harness.validate import check_records
from systems.schedulers.fifo import Fifo
from systems.schedulers.tiresias import Tiresias
from systems.schedulers.uniform import Uniform
from tests.examples import examples
from tests.replay.worlds import Driver, Mechanism, cluster, job, simulate

SURVIVES = Mechanism(abilities=Abilities(True, True, True, True, survive=True))
LOSES = Mechanism()


def down(time_s, *slots):
    return TraceEvent(time_s, TraceEventKind.SLOTS_DOWN, slots)


def up(time_s, *slots):
    return TraceEvent(time_s, TraceEventKind.SLOTS_UP, slots)


def cancel(time_s, job_id):
    return TraceEvent(time_s, TraceEventKind.CANCEL, job_id=job_id)


def greedy(view):
    """Every waiting job gets what it asks for, as far as there is; nothing else changes."""
    free, changes = view.num_usable - view.num_granted, {}
    for known in sorted(view.jobs.values(), key=lambda j: j.spec.order):
        if known.grant is None and known.spec.requested_slots <= free:
            changes[known.job_id] = Grant(known.spec.requested_slots)
            free -= known.spec.requested_slots
    return Decision(changes)


def run(jobs, *events, mechanism=LOSES, rule=greedy, slots=2, **options):
    records = simulate(
        jobs, Driver(rule), on=cluster(1, slots), mechanism=mechanism, events=events, **options
    )
    return {record.job_id: record for record in records.jobs}, records


def test_a_lost_job_goes_on_from_its_last_checkpoint_where_slots_are_up():
    # T(2) = 2: 60 samples in 30 s; checkpoints each 10 s, so 40 samples are safe at 25 s.
    jobs, records = run(
        [job("a", slots=2, work=100)], down(25, 1), up(45, 1), checkpoint_every_s=10.0
    )
    assert jobs["a"].state == "finished"
    assert jobs["a"].finish_s == pytest.approx(45 + (100 - 40) / 2)
    assert [(g.start_s, g.end_s, g.slots) for g in records.grants] == [
        (0, 25, (0, 1)),
        (45, pytest.approx(75), (0, 1)),
    ]


@pytest.mark.parametrize(("every_s", "kept"), [(math.inf, 0), (30.0, 0), (24.0, 48), (5.0, 50)])
def test_what_is_kept_depends_on_the_checkpoints(every_s, kept):
    jobs, _ = run(
        [job("a", slots=2, work=100)], down(25, 1), up(25.5, 1), checkpoint_every_s=every_s
    )
    assert jobs["a"].finish_s == pytest.approx(25.5 + (100 - kept) / 2)


def test_a_change_saves():
    def rule(view):
        if view.time_s >= 20 and (known := view.jobs.get("a")) and known.grant == Grant(2):
            return Decision({"a": Grant(1)})
        return replace(greedy(view), wake_s=20.0 if view.time_s < 20 else None)

    jobs, _ = run(
        [job("a", slots=2, work=100)], down(30, 0), up(40, 0),
        rule=rule, checkpoint_every_s=math.inf,
    )  # fmt: skip
    # 40 samples by the rescale at 20 s; the 10 after it are lost; from 40 s on two slots again.
    assert jobs["a"].finish_s == pytest.approx(40 + (100 - 40) / 2)


@pytest.mark.parametrize(("down_s", "preemptions"), [(22, 0), (26, 1)])
def test_who_loses_its_slots_while_it_is_being_suspended_is_not_preempted(down_s, preemptions):
    def rule(view):
        if view.time_s == 20:
            return Decision({"a": Suspend()}, wake_s=40.0)
        return replace(greedy(view), wake_s=20.0) if view.time_s < 20 else greedy(view)

    jobs, _ = run(
        [job("a", slots=2, work=100)], down(down_s, 1), up(40, 1), rule=rule,
        costs={"pause_s": 4.0},
    )  # fmt: skip
    assert jobs["a"].state == "finished"
    assert jobs["a"].num_preemptions == preemptions


def test_survivors_go_on_after_the_pause_of_a_rescale():
    jobs, records = run(
        [job("a", slots=2, work=100)],
        down(25, 1),
        mechanism=SURVIVES,
        costs={"preparation_s": 2.0, "pause_s": 3.0},
    )
    # Five seconds to start, 40 samples by 25 s, a pause of three, 60 samples on one slot.
    assert jobs["a"].finish_s == pytest.approx(25 + 3 + 60)
    assert [g.slots for g in records.grants] == [(0, 1), (0, 1), (0,)]  # the first: it starts
    assert records.facts["workers_lost"] == 1


def test_a_change_under_way_fails_with_a_slot_of_its_own():
    def rule(view):
        if view.time_s == 10:
            return Decision({"a": Grant(2)})
        return Decision(
            {"a": Grant(1)} if view.time_s == 0 else {}, 10.0 if view.time_s < 10 else None
        )

    jobs, records = run(
        [job("a", work=100)],
        down(16, 1),
        mechanism=SURVIVES,
        rule=rule,
        costs={"preparation_s": 4.0, "pause_s": 4.0},
    )
    # It starts at 8 s, trains till the pause at 14 s, and goes on alone from 16 s.
    assert jobs["a"].finish_s == pytest.approx(16 + 100 - 6)
    assert [(c.kind, c.outcome) for c in records.changes] == [
        ("start", "done"),
        ("rescale", "failed"),
    ]


def test_outages_are_recorded_and_those_that_last_end_with_the_run():
    _, records = run(
        [job("a", slots=1, work=100), job("b", arrival_s=50.0, work=20)],
        down(10, 1, 2), up(20, 2), up(30, 1), down(40, 2), down(45, 3), up(45, 3),
        slots=4,
    )  # fmt: skip
    assert records.outages == [
        OutageRecord(2, 10, 20),
        OutageRecord(1, 10, 30),
        OutageRecord(3, 45, 45),
        OutageRecord(2, 40, 100),
    ]


def test_interruptions_are_counted_where_a_job_loses_its_grant():
    events = down(10, 0), up(15, 0), down(20, 1), up(25, 1), cancel(30, "b")
    waiting = [job("a", slots=2, work=100), job("b", slots=2, work=10)]
    assert run(waiting, *events)[1].facts["interruptions"] == 2
    # Survivors go on with slot 1 till that goes down, too.
    assert run(waiting, *events, mechanism=SURVIVES)[1].facts["interruptions"] == 1


def test_slots_that_never_come_back_are_named_as_what_jobs_wait_for():
    with pytest.raises(ReplayError, match=r"2 of 2 slots are down and never come up again\. Let"):
        run([job("a", work=100)], down(10, 0, 1))
    with pytest.raises(ReplayError, match=r"asked for no wake-up\. Give the cluster more"):
        run([job("a", slots=3, work=100)])


def test_a_run_without_events_records_no_outage_and_no_interruption():
    _, records = run([job("a", slots=2, work=100)])
    assert records.outages == []
    assert "interruptions" not in records.facts


def test_cancelled_jobs_end_whatever_they_do():
    jobs, _ = run(
        [job("a", slots=2, work=100), job("b", slots=2, work=50), job("c", slots=2, work=30)],
        cancel(10, "a"),
        cancel(12, "c"),
        cancel(99, "b"),
    )
    assert (jobs["a"].state, jobs["a"].finish_s, jobs["a"].samples_done) == ("cancelled", 10, 20)
    assert (jobs["c"].state, jobs["c"].first_start_s) == ("cancelled", None)
    assert (jobs["b"].state, jobs["b"].finish_s) == ("finished", 35)


def test_a_job_that_ends_in_the_instant_of_a_failure_has_ended():
    jobs, _ = run([job("a", slots=2, work=50)], down(25, 0), cancel(25, "a"))
    assert (jobs["a"].state, jobs["a"].finish_s) == ("finished", 25)


def test_who_is_cancelled_in_the_instant_in_which_a_slot_is_free_never_starts():
    jobs, records = run(
        [job("a", work=1000), job("b", work=10), job("c", work=10)], cancel(1000, "b"), slots=1
    )
    assert (jobs["b"].state, jobs["b"].first_start_s) == ("cancelled", None)
    assert {change.job_id for change in records.changes} == {"a", "c"}
    assert jobs["c"].first_start_s == 1000


def test_nobody_starts_on_a_slot_that_goes_down_as_it_becomes_free():
    jobs, records = run([job("a", work=10), job("b", work=10)], down(10, 0), up(30, 0), slots=1)
    assert jobs["a"].finish_s == 10
    assert [(change.job_id, change.requested_s) for change in records.changes] == [
        ("a", 0),
        ("b", 30),
    ]


def test_a_change_that_would_be_done_in_the_instant_of_a_failure_has_failed():
    for costs in ({"pause_s": 5.0}, {"preparation_s": 5.0}, {"preparation_s": 2.0, "pause_s": 3.0}):
        jobs, records = run([job("a", slots=2, work=100)], down(5, 1), up(9, 1), costs=costs)
        assert [(c.kind, c.ended_s, c.outcome) for c in records.changes] == [
            ("start", 5, "failed"),
            ("start", 14, "done"),
        ]
        assert jobs["a"].finish_s == 14 + 50


@pytest.mark.parametrize("pause_s", [0.0, 5.0])
def test_a_pause_that_would_begin_in_the_instant_of_a_failure_keeps_no_sample(pause_s):
    def rule(view):
        if view.time_s == 20:
            return Decision({"a": Grant(1)})
        return replace(greedy(view), wake_s=20.0 if view.time_s < 20 else None)

    jobs, _ = run(
        [job("a", slots=2, work=100)], down(24, 1), cancel(25, "a"), rule=rule,
        costs={"preparation_s": 4.0, "pause_s": pause_s}, checkpoint_every_s=math.inf,
    )  # fmt: skip
    assert (jobs["a"].state, jobs["a"].samples_done) == ("cancelled", 0)


def outages(windows):
    """Events of (slot, begin, length); windows of a slot that overlap another are left out."""
    free_from, events = {}, []
    for slot, begin, length in sorted(windows, key=lambda window: window[1]):
        if begin > free_from.get(slot, -1):
            free_from[slot] = begin + length
            events += [down(float(begin), slot), up(float(begin + length), slot)]
    return events


@settings(deadline=None, max_examples=examples(200))
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 3), st.integers(1, 200)),
        min_size=1,
        max_size=8,
    ),
    windows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 150), st.integers(1, 60)), max_size=10
    ),
    cancelled=st.dictionaries(st.integers(0, 7), st.integers(1, 120), max_size=3),
    pause_s=st.sampled_from([0.0, 3.0]),
    preparation_s=st.sampled_from([0.0, 2.5]),
    mechanism=st.sampled_from([LOSES, SURVIVES]),
    scheduler=st.sampled_from([Fifo, Uniform, Tiresias]),
)
def test_whatever_happens_the_books_balance(
    rows, windows, cancelled, pause_s, preparation_s, mechanism, scheduler
):
    jobs = [
        job(f"{i}", float(at), slots, float(work), max_slots=4)
        for i, (at, slots, work) in enumerate(rows)
    ]
    arrivals = {spec.job_id: spec.arrival_s for spec in jobs}
    events = in_order(
        outages(windows)
        + [
            cancel(arrivals[f"{number}"] + after, f"{number}")
            for number, after in cancelled.items()
            if f"{number}" in arrivals
        ]
    )
    costs = {"preparation_s": preparation_s, "pause_s": pause_s}
    first, second = (
        simulate(
            jobs, scheduler(), on=cluster(2, 2), costs=costs, mechanism=mechanism, events=events
        )
        for _ in range(2)
    )
    assert (first.jobs, first.grants, first.changes) == (second.jobs, second.grants, second.changes)
    for record in first.jobs:
        if record.state == "finished":
            assert record.samples_done == record.work_samples
        else:
            assert record.state == "cancelled"
            assert cancelled[int(record.job_id)] == record.finish_s - record.arrival_s
            assert record.samples_done <= record.work_samples
    is_down = {slot: [] for slot in range(4)}
    for event in events:
        if event.kind is TraceEventKind.SLOTS_DOWN:
            is_down[event.slots[0]].append([event.time_s, math.inf])
        elif event.kind is TraceEventKind.SLOTS_UP:
            is_down[event.slots[0]][-1][1] = event.time_s
    end_s = max(record.finish_s for record in first.jobs)
    recorded = {slot: [] for slot in range(4)}
    for outage in sorted(first.outages, key=lambda outage: outage.start_s):
        if outage.start_s < end_s:
            recorded[outage.slot].append((outage.start_s, outage.end_s))
    assert recorded == {
        slot: [(begin, min(end, end_s)) for begin, end in windows if begin < end_s]
        for slot, windows in is_down.items()
    }
    assert list(check_records(first)) == []
    for grant in first.grants:
        for slot in grant.slots:
            for begin, end in is_down[slot]:
                assert grant.end_s <= begin or grant.start_s >= end, (grant, begin, end)
    held = sorted(
        (time_s, step, slot)
        for grant in first.grants
        if grant.end_s > grant.start_s
        for slot in grant.slots
        for time_s, step in ((grant.start_s, 1), (grant.end_s, 0))
    )
    taken = set()
    for _, begins, slot in held:
        assert (slot in taken) != bool(begins)
        (taken.add if begins else taken.remove)(slot)
