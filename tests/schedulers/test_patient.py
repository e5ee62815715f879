"""Patient in real replays: who is promised what and when, and that promises are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Refuse
from harness.contracts.view import ClusterView
from systems.schedulers.elasticflow import ElasticFlow
from systems.schedulers.patient import Patient
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import periods, run

LINE = {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
CURVES = {
    "line": LINE,
    "one": {1: 1.0},
    "concave": {1: 4.0, 2: 7.0, 3: 9.0, 4: 10.5, 8: 12.0},
    "dips": {1: 4.0, 2: 7.0, 3: 9.0, 4: 8.0, 8: 12.0},
    "late": {1: 1.0, 2: 1.5, 4: 6.0, 8: 9.0},
}
KNOWN = curve_profile(CURVES)
FOUR = cluster(1, 4)


def line(job_id, arrival_s, work, deadline_s, **more):
    """A job that is as fast as it has slots, up to 4."""
    more = {"workload": "line", "max_slots": 4, "deadline_kind": "hard", **more}
    return job(job_id, arrival_s, 1, work, deadline_s=deadline_s, **more)


def met(records):
    return {
        record.job_id
        for record in records.jobs
        if record.state == "finished"
        and record.deadline_s is not None
        and record.finish_s <= record.deadline_s * (1 + 1e-6)
    }


def states(records):
    return {record.job_id: record.state for record in records.jobs}


@dataclass
class Promises:
    """A scheduler, with the times at which jobs were first seen to be promised."""

    inner: Patient
    since_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.needs = self.inner.needs
        self.requires = self.inner.requires
        self.wants_progress = self.inner.wants_progress

    def decide(self, view: ClusterView) -> Decision:
        decision = self.inner.decide(view)
        for job_id in self.inner.promised:
            self.since_s.setdefault(job_id, view.time_s)
        return decision


def big_and_small():
    """A big job, and a second later three small ones; four slots hold the big one or the rest."""
    small = [line(f"small {index}", 1, 8.0, 8.0 + index / 10) for index in range(3)]
    return [line("big", 0, 32.0, 9.0), *small]


def test_elasticflow_keeps_the_big_job_and_refuses_the_small_ones():
    records, _ = run(big_and_small(), ElasticFlow(1.0, False), FOUR, known=KNOWN)
    assert met(records) == {"big"}
    assert set(states(records).values()) == {"finished", "refused"}


def test_jobs_that_cost_less_take_the_place_of_one_that_is_not_promised_yet():
    scheduler = Promises(Patient(1.0, powers_of_two=False, answer_after=0.5))
    records, _ = run(big_and_small(), scheduler, FOUR, known=KNOWN)
    assert met(records) == {"small 0", "small 1", "small 2"}
    assert "big" not in scheduler.since_s
    assert periods(records, "big")[0][:2] == (0.0, 1.0), "it had run until then"


def test_at_once_is_a_promise_that_nobody_takes_away():
    """At 0 the big job is planned, and promised before the others are looked at."""
    scheduler = Promises(Patient(1.0, powers_of_two=False, answer_after=0.0))
    records, _ = run(big_and_small(), scheduler, FOUR, known=KNOWN)
    assert met(records) == {"big"}
    assert scheduler.since_s["big"] <= 1.0


def test_the_promise_is_due_at_its_share_of_the_time_to_the_deadline():
    """Arrivals at 2, 4 and 6 s and ends at 3, 5 and 7 s make decisions; due are 0, 2.5 and 6 s."""
    jobs = [
        line("a", 0, 8.0, 10.0, max_slots=1, workload="one"),
        *(line(f"tick {at}", at, 1.0, at + 8.0, max_slots=1, workload="one") for at in (2, 4, 6)),
    ]
    for answer_after, due_s in ((0.0, 2.0), (0.25, 3.0), (0.6, 6.0)):
        scheduler = Promises(Patient(1.0, answer_after=answer_after))
        run(jobs, scheduler, FOUR, known=KNOWN)
        assert scheduler.since_s["a"] == due_s, "the first decision from then on"


def test_a_job_that_does_not_fit_waits_and_is_planned_when_slots_come_free():
    """The first job would need its four slots to the end, but its owner said twice its work."""
    jobs = [
        line("first", 0, 20.0, 10.0, stated_work_ratio=2.0),
        line("second", 1, 16.0, 11.0),
    ]
    refused, _ = run(jobs, ElasticFlow(1.0, False), FOUR, known=KNOWN)
    assert states(refused)["second"] == "refused"
    kept, _ = run(jobs, Patient(1.0, False, answer_after=0.0), FOUR, known=KNOWN)
    assert met(kept) == {"first", "second"}


def test_a_hopeless_job_is_refused_at_once_or_waits_behind_if_its_deadline_is_soft():
    jobs = [
        line("hard", 0, 9.0, 2.0),
        line("soft", 0, 9.0, 2.0, deadline_kind="soft"),
        line("kept", 0, 8.0, 2.0),
    ]
    records, _ = run(jobs, Patient(1.0, False), FOUR, known=KNOWN)
    assert states(records) == {"hard": "refused", "soft": "finished", "kept": "finished"}
    assert periods(records, "kept") == [(0.0, 2.0, 4)]
    assert periods(records, "soft")[0][0] == 2.0
    reason = next(record.reason for record in records.jobs if record.job_id == "hard")
    assert reason == "its deadline can no more be kept by any share"


def test_a_job_that_lost_its_slots_for_good_costs_no_other_its_promise():
    chaos = ChaosEngine(cluster(1, 2), 0, outages=((1, 12, 1000),))
    jobs = [
        job("a", 0, 1, 20, max_slots=1, deadline_s=21.0, deadline_kind="hard"),
        job("b", 0, 1, 20, max_slots=1, deadline_s=22.0, deadline_kind="hard"),
        job("tick", 11, 1, 1, max_slots=1, deadline_s=500.0, deadline_kind="soft"),
    ]
    scheduler = Promises(Patient(1.0, answer_after=0.5))
    records, _ = run(jobs, scheduler, cluster(1, 2), chaos=chaos)
    assert {"a", "b"} <= scheduler.since_s.keys()
    assert met(records) >= {"a"}
    assert states(records)["b"] == "finished", "a job that was promised is not refused"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"slot_s": 0.0}, "slot_s is 0.0"),
        ({"margin_s": -1.0}, "margin_s is -1.0"),
        ({"answer_after": 1.0}, "answer_after is 1.0"),
        ({"tries": -1}, "tries is -1"),
    ],
)
def test_options_that_mean_nothing(options, problem):
    with pytest.raises(ValueError, match=problem):
        Patient(**options)


@st.composite
def tight_traces(draw):
    """Jobs with deadlines that are about as long as their work, and some without."""
    jobs = []
    for index in range(draw(st.integers(2, 12))):
        arrival_s = draw(st.integers(0, 120)) / 4
        slack_s = draw(st.integers(2, 40))
        kind = draw(st.sampled_from(["hard", "hard", "hard", "soft", "none"]))
        low = draw(st.sampled_from([1, 1, 1, 2]))
        jobs.append(
            job(
                f"{index:02d}",
                arrival_s,
                draw(st.integers(low, 4)),
                slack_s * draw(st.integers(1, 10)) / 2,
                workload=draw(st.sampled_from([*CURVES, "recorded"])),
                elastic=draw(st.sampled_from([True, True, True, False])),
                min_slots=low,
                max_slots=draw(st.sampled_from([None, None, 4])),
                deadline_s=None if kind == "none" else arrival_s + slack_s,
                deadline_kind=kind,
            )
        )
    return jobs


@pytest.mark.parametrize(
    "options", [{}, {"powers_of_two": False, "answer_after": 0.2}, {"answer_after": 0.0}]
)
@settings(deadline=None, max_examples=examples(60))
@given(jobs=tight_traces())
def test_a_job_that_is_promised_meets_its_deadline(options, jobs):
    """With exact times: changes of slots are free. Nobody is refused who was promised; a job with
    a hard deadline ends or is refused, everybody else ends. One that was promised nothing may be
    late: between two decisions nobody sees that it has become hopeless."""
    scheduler = Promises(Patient(1.0, **options))
    records, _ = run(jobs, scheduler, cluster(2, 4), known=KNOWN)
    assert scheduler.since_s.keys() <= met(records)
    for record in records.jobs:
        if record.deadline_kind == "hard":
            assert record.state in ("finished", "refused")
        else:
            assert record.state == "finished"
    for moment in {grant.start_s for grant in records.grants}:
        held = [grant for grant in records.grants if grant.start_s <= moment < grant.end_s]
        slots = [slot for grant in held for slot in grant.slots]
        assert len(slots) == len(set(slots)) <= 8


def most_kept(jobs):
    """The most jobs of a burst whose deadlines four slots can keep, by all subsets: jobs on a line
    fit if by each deadline no more work is due than four slots do (ElasticFlow, Theorem 1)."""
    for size in range(len(jobs), 0, -1):
        for kept in combinations(sorted(jobs, key=lambda one: one.deadline_s), size):
            due = 0.0
            for one in kept:
                due += one.work_samples
                if due > 4.0 * one.deadline_s:
                    break
            else:
                return size
    return 0


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(1, 24), st.integers(1, 9)), min_size=1, max_size=7))
def test_of_a_burst_as_many_are_kept_as_by_any_choice(burst):
    jobs = [line(f"{index}", 0, float(work), float(end)) for index, (work, end) in enumerate(burst)]
    records, _ = run(jobs, Patient(1.0, False), FOUR, known=KNOWN)
    assert len(met(records)) == most_kept(jobs)


def test_a_job_whose_start_fails_gives_its_grant_back_before_it_is_refused():
    """Found at random: a start that fails leaves the job waiting, with a grant."""
    jobs = [
        job("00", 0.0, 1, 120.0, elastic=False),
        job("01", 60.0, 1, 60.0, elastic=False),
        job("02", 60.0, 1, 2220.0, deadline_s=360.0, deadline_kind="hard"),
    ]
    where = cluster(2, 4)
    chaos = ChaosEngine(
        where, seed=0, max_delay_s=0, failure_share=0.2, outages=(), deaths=(), shrinks=False
    )
    _, recorder = run(jobs, Patient(answer_after=0.5), where, chaos=chaos)
    refused = [
        view.jobs[job_id]
        for view, decision in zip(recorder.views, recorder.decisions, strict=True)
        for job_id, change in decision.changes.items()
        if isinstance(change, Refuse)
    ]
    assert [one.job_id for one in refused] == ["02"]
    assert all(one.grant is None for one in refused)
